"""Whether to augment a request, from which collections, and why: one precedence for all controls.

Off wins over on: the setting, model prefix `raw/`, header `x-rag: off`, `rag` in the body. On, by header or body,
forces a search even for utility requests and small talk, but never overrides off. `x-rag: compare` is on, and asks for
a shadow comparison. Collections come from `rag` in the body, else header `x-rag-collection`, else model prefix
`rag/<collection>/`, else the setting.

If action sets are configured, a chat can name some: in the body's `rag.actions`, else header `x-rag-actions`, else
model prefix `rage/<set>/`, before any other prefix. Retrieval off switches default sets off, too, unless that header is
`on`: so answers with and without passages can be compared, both with operations. Header `x-rag-max-tokens` is a ceiling
for all model calls together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from proxy.asgi import Scope
from proxy.augment.skipped import SmallTalk, UtilityPrompts
from proxy.caller import MAX_COLLECTION_CHARS, MAX_COLLECTIONS, are_collections
from proxy.dialects.base import ConversationMessage, ModelRequest, without_program_text
from proxy.dialects.codes import code_line
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import Edit
from proxy.dialects.target import Target
from proxy.exchange import Exchange, RagStatus
from retrieval.records.search import Retrieved, Turn

_MAX_TURNS = 12  # the last ones: rewriting uses no more
_MAX_TURN_CHARS = 20_000
_MAX_K = 100
_MAX_QUOTED_CHARS = 100  # of an unknown name, quoted in an error
_CONTROLS = (b"x-rag", b"x-rag-collection", b"x-rag-actions", b"x-rag-max-tokens")
_MOST_DIGITS = 15
HOUSEKEEPING = "housekeeping call"
SMALL_TALK = "small talk"
CONFIRMATION = "confirmation"


@dataclass(slots=True)  # not frozen, as `Step`: made for each request
class Decision:
    """What to do with a request. `turns` is empty unless it is augmented or small talk."""

    model: str  # without our prefixes
    status: RagStatus  # off or skipped; augmented means: search
    reason: str
    turns: tuple[Turn, ...]
    collections: tuple[str, ...]
    explicit: bool  # the client named collections
    k: int | None
    compare: bool = False  # a shadow comparison is asked for
    continues: bool = False  # lacks earlier turns of a stored conversation, which the search needs
    forced: bool = False  # a search is asked for, whatever the message says
    action_sets: tuple[str, ...] | None = None  # as the client names them; None: not named, () switches off
    keeps_sets: bool = False  # default sets stay even if retrieval is off
    most_tokens: int = 0  # for all model calls in a chat with operations; 0: no ceiling


@dataclass(slots=True)
class Chat:
    """A chat between the client's request and the model call."""

    exchange: Exchange
    request: ModelRequest  # as the client sent it
    target: Target
    decision: Decision
    budget_tokens: int = 0  # for passages
    found: Retrieved | None = None  # None: no search result
    injected: str = ""  # passages, and the text around them
    headers: Headers = field(default_factory=list)  # of the client's request

    @property
    def searched(self) -> bool:
        """Whether the gateway searched for passages or operations."""
        trace = self.exchange.action_trace
        return self.decision.status == "augmented" or (trace is not None and trace.searched)

    def forwarded(
        self,
        request: ModelRequest | None = None,
        edits: Sequence[Edit] = (),
        instructions: str = "",
        target: Target | None = None,
    ) -> bytes:
        """The bytes for the upstream: without edits, identical to the request.

        request, target: the chat as a chat completion; None: as sent. instructions: placed before passages.
        """
        target = target or self.target
        context = self.injected
        if instructions:
            context = f"{instructions}\n\n{context}" if context else instructions
        return (request or self.request).edited(
            context=context,
            position=target.position,
            model=target.model or self.decision.model,
            without_rag=True,
            edits=edits,
        )


def decide(
    request: ModelRequest,
    scope: Scope,
    *,
    enabled: bool,
    collections: Sequence[str],
    utility_prompts: UtilityPrompts,
    actions: bool = False,
) -> Decision:
    """utility_prompts: prompts that programs use; requests with one get no passages.

    actions: whether action sets are configured; without any, controls for them are not read.

    Raises ApiError 400: a control, model or messages cannot be read, or two headers disagree.
    """
    name, messages, continued = request.model(), request.messages(), request.previous_reply or request.conversation
    name, sets = split_sets(name) if actions else (name, "")
    model, raw, prefix = split_model(name)
    controls = [pair for pair in scope["headers"] if pair[0] in _CONTROLS]
    header = _header(controls, _CONTROLS[0]).lower()
    if header not in ("", "on", "off", "compare"):
        raise ApiError(400, f"The header x-rag must be on, off or compare, got {header!r}.", code="invalid_x_rag")
    options = _rag_options(request, actions=actions)
    chosen = options.collections or collection_names(_header(controls, _CONTROLS[1])) or collection_names(prefix)
    if chosen and not are_collections(chosen):
        raise _bad_rag(
            f"Name at most {MAX_COLLECTIONS} collections, each with at most {MAX_COLLECTION_CHARS} characters"
        )
    status: RagStatus = "off"
    turns: tuple[Turn, ...] = ()
    continues = forced = False
    reason = _off_reason(enabled, raw, header, options)
    if not reason:
        forced = header in ("on", "compare") or options.enabled is True
        utility = not forced and utility_prompts.match(messages)
        turns = () if utility else turns_of(messages)
        status = "augmented" if turns else "skipped"
        reason = HOUSEKEEPING if utility else "" if turns else "no user text"
        continues = not utility and continued != "" and _lacks_turns(messages, turns)
    searched, compare = chosen or tuple(collections), header == "compare"
    asked_sets = _header(controls, _CONTROLS[2])
    named = _named_sets(options, asked_sets, sets) if actions else None
    return Decision(
        model,
        status,
        reason,
        turns,
        searched,
        bool(chosen),
        options.k,
        compare,
        continues,
        forced,
        named,
        asked_sets.lower() == "on",
        _most_tokens(_header(controls, _CONTROLS[3])) if actions else 0,
    )


def _most_tokens(header: str) -> int:
    """A ceiling for a chat with operations; 0: none. Raises ApiError 400."""
    if header and not (header.isascii() and header.isdigit() and len(header) <= _MOST_DIGITS and int(header)):
        raise ApiError(
            400, f"The header x-rag-max-tokens must be a whole number above 0, got {header!r}.", code="invalid_x_rag"
        )
    return int(header or 0)


def _named_sets(options: "RagOptions", header: str, prefix: str) -> tuple[str, ...] | None:
    """Action sets that the client names; None: none named, () for header `off` or an empty list."""
    if options.actions is not None:
        return options.actions
    if header.lower() == "off":
        return ()
    named = () if header.lower() == "on" else collection_names(header)
    return named or collection_names(prefix) or None


def split_sets(name: str) -> tuple[str, str]:
    """(rest of the name, sets in rage/<sets>/<rest> or ""), if action sets are configured.

    Raises ApiError 400 for half a prefix.
    """
    if not name.startswith("rage/"):
        return name, ""
    sets, _, rest = name.removeprefix("rage/").partition("/")
    if not sets or not rest:
        message = f"The model {name!r} is half a prefix: write rage/SET/MODEL."
        raise ApiError(400, message, code="invalid_model_prefix", param="model")
    return rest, sets.encode("utf-8", "replace").decode()


def _lacks_turns(messages: Sequence[ConversationMessage], turns: Sequence[Turn]) -> bool:
    """Whether the search needs turns of a stored conversation, which only the provider and we have.

    A request with a model's answer has the whole history. One without a user message has tool results, and continues an
    earlier question.
    """
    if not turns:
        return messages[-1:] != [] and messages[-1].role == "tool" and all(each.role != "user" for each in messages)
    return all(turn.role == "user" for turn in turns)


def with_history(decision: Decision, history: Sequence[Turn]) -> Decision:
    """Decide about the whole conversation. history: earlier turns; empty if they are not known.

    A request without a question gets an earlier question's passages.
    """
    own = decision.turns
    turns = [*history, *(turn for turn in own[:-1] if turn not in history), *own[-1:]]
    while turns and turns[-1].role != "user":
        turns.pop()
    if not turns:
        return decision
    return replace(decision, status="augmented", reason="", turns=tuple(turns[-_MAX_TURNS:]))


def without_code_line(decision: Decision) -> Decision:
    """Skip the search if the message only confirms a call that changes something."""
    if decision.status != "augmented" or code_line(decision.turns[-1].text) is None:
        return decision
    return replace(decision, status="skipped", reason=CONFIRMATION)


def without_small_talk(decision: Decision, small_talk: SmallTalk) -> Decision:
    """Do not search if the message is small talk. Its turns stay: later questions lean on them."""
    if decision.status != "augmented" or decision.forced or not small_talk.match(decision.turns):
        return decision
    return replace(decision, status="skipped", reason=SMALL_TALK)


@dataclass(frozen=True, slots=True)
class RagOptions:
    """The body's `rag`."""

    enabled: bool | None  # None: left to the gateway
    collections: tuple[str, ...]
    k: int | None
    actions: tuple[str, ...] | None = None  # None: no set named


_NO_OPTIONS = RagOptions(None, (), None)


def _off_reason(enabled: bool, raw: bool, header: str, options: RagOptions) -> str:
    if not enabled:
        return "retrieval is disabled"
    if raw:
        return "raw model"
    if header == "off":
        return "x-rag header"
    return "rag in the body" if options.enabled is False else ""


def split_model(name: str) -> tuple[str, bool, str]:
    """(model, whether the name is raw/<model>, collections in rag/<collections>/<model> or "").

    Raises ApiError 400 for half a prefix.
    """
    kind, slash, rest = name.partition("/")
    if not slash or kind not in ("raw", "rag"):
        return name, False, ""
    collection, _, model = rest.partition("/") if kind == "rag" else ("-", "", rest)
    if not collection or not model:
        message = f"The model {name!r} is half a prefix: write raw/MODEL, or rag/COLLECTION/MODEL."
        raise ApiError(400, message, code="invalid_model_prefix", param="model")
    if kind == "raw":
        return model, True, ""
    return model, False, collection.encode("utf-8", "replace").decode()  # half a surrogate pair names nothing


def _rag_options(request: ModelRequest, *, actions: bool) -> RagOptions:
    """The body's `rag`: {"enabled": bool, "collections": [names], "k": int, "actions": [sets]}, or true or false."""
    rag = request.fields.get("rag")
    if rag is None:
        return _NO_OPTIONS
    if isinstance(rag, bool):
        return RagOptions(rag, (), None)
    if not isinstance(rag, dict):
        raise _bad_rag("'rag' in the request body must be an object or a boolean")
    unknown = sorted(set(rag) - {"enabled", "collections", "k", *(["actions"] if actions else [])})
    if unknown:
        takes = "enabled, collections, k and actions" if actions else "enabled, collections and k"
        raise _bad_rag(f"'rag' in the request body has no '{unknown[0][:_MAX_QUOTED_CHARS]}'; it takes {takes}")
    enabled, names, k = rag.get("enabled"), rag.get("collections", []), rag.get("k")
    if not isinstance(enabled, bool) and "enabled" in rag:
        raise _bad_rag("'rag.enabled' in the request body must be true or false")
    if not _are_names(names):
        raise _bad_rag("'rag.collections' in the request body must be a list of names")
    sets = rag.get("actions")
    if sets is not None and not _are_names(sets):
        raise _bad_rag("'rag.actions' in the request body must be a list of names")
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= _MAX_K):
        raise _bad_rag(f"'rag.k' in the request body must be a whole number from 1 to {_MAX_K}")
    return RagOptions(enabled, tuple(names), k, None if sets is None else tuple(sets))


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name and name.isprintable() for name in value)


def _bad_rag(what: str) -> ApiError:
    return ApiError(400, f"{what}.", code="invalid_rag", param="rag")


def turns_of(messages: Sequence[ConversationMessage]) -> tuple[Turn, ...]:
    """The conversation up to its latest user message; () if that has no text.

    Tool calls and results after it belong to the same turn: we search for that question again, so every round of a tool
    loop gets equal context. A user message that only a program wrote is not a question.
    """
    messages = [message for message in map(_without_program_text, messages) if message is not None]
    last = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    if last < 0 or not messages[last].text.strip():
        return ()
    said = [message for message in messages[: last + 1] if message.role in ("user", "assistant")]
    turns = [
        Turn("user" if message.role == "user" else "assistant", _clip(message.text))
        for message in said
        if message.text.strip()
    ]
    return tuple(turns[-_MAX_TURNS:])


def _without_program_text(message: ConversationMessage) -> ConversationMessage | None:
    """A user message without what a program added; None if nothing else is left."""
    if message.role != "user" or "<" not in message.text:
        return message
    text = without_program_text(message.text)
    return ConversationMessage("user", text, message.calls) if text.strip() else None


def _clip(text: str) -> str:
    if len(text) > _MAX_TURN_CHARS:
        text = text[: _MAX_TURN_CHARS // 2] + "\n" + text[-_MAX_TURN_CHARS // 2 :]
    # Half a surrogate pair cannot be encoded for the index process.
    return text.encode("utf-8", "replace").decode("utf-8")


def collection_names(value: str) -> tuple[str, ...]:
    """Collection names, separated by commas, in a model prefix or a header."""
    return () if not value else tuple(name for part in value.split(",") if (name := part.strip()))


def _header(headers: Headers, name: bytes) -> str:
    """A header's value; "" without it. Raises ApiError 400: it is given twice, with different values."""
    if not headers:
        return ""
    values = {value.decode("latin-1").strip() for key, value in headers if key == name}
    if len(values) > 1:
        message = f"The header {name.decode()} is given twice with different values: send it once."
        raise ApiError(400, message, code="conflicting_header")
    return values.pop() if values else ""
