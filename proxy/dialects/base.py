"""A *dialect*: the object that knows a client API, so that the rest of the gateway need not.

It reads requests (`ModelRequest`), inserts text, reads replies (`ReplyReader`) and writes errors. It has no state, so
one object serves all requests. `own_words` are what a person wrote, of messages in any dialect: not what a tool, a
document or a coding agent adds to them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import Edit, JsonBody, kind_of
from proxy.dialects.replies import ReplyReader, Tokens

# Where passages go. lead: before the whole conversation. merge: after the client's own instructions. tail: at the end
# of the newest user message.
Position = Literal["lead", "merge", "tail"]


# Elements that coding agents add to user messages: Claude Code adds reminders to most messages (notes on files, tasks
# and settings, of any length), Codex and Cline describe their environment. Searching for such text finds nothing.
PROGRAM_ELEMENTS = ("system-reminder", "environment_context", "environment_details")

INSTRUCTIONS = ("system", "developer")  # roles

KeyHeader = Literal[b"authorization", b"x-api-key"]  # authorization has the form `Bearer KEY`
X_API_KEY: KeyHeader = b"x-api-key"
PERSON_HEADER = b"x-rag-user"


def person_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Who asks, as the header says; "": not said."""
    return next((value.decode("latin-1") for name, value in headers if name == PERSON_HEADER), "")


class ConversationMessage(NamedTuple):
    """One message, in a form that all dialects share."""

    role: str  # system, developer, user, assistant, tool, or a client's own word
    text: str  # all text parts, joined by line feeds; "" if there is none
    calls: Any = None  # tool calls as JSON; None: no call


def text_of(content: Any, types: Sequence[str] = ("text",)) -> str:
    """The text in `content`: a string, or a list's text parts of these types; "" if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in types]
    return "\n".join(part for part in parts if isinstance(part, str))


def without_program_text(text: str) -> str:
    """Remove what a coding agent added. An element that is never closed stays."""
    for name in PROGRAM_ELEMENTS:
        opening, closing = f"<{name}>", f"</{name}>"
        if opening in text:
            before, *elements = text.split(opening)
            parted = (element.partition(closing) for element in elements)
            text = before + "".join(after if closed else opening + piece for piece, closed, after in parted)
    return text


def index_of_question(users: Sequence[tuple[int, str]]) -> int:
    """Index of the newest user message that a person wrote, else of the newest at all; -1: no message.

    users: index and text of each user message. Claude Code appends its own text to tool results: the question is then
    an older message, and stays the same in every round of a tool conversation.
    """
    asking = [index for index, text in users if without_program_text(text).strip()]
    return max(asking or [index for index, _ in users], default=-1)


def checked_messages(fields: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """`messages`: at least one, each with a role. Raises ApiError 400."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        found = "none" if not messages else kind_of(messages)
        text = f"'messages' must be a list of at least one message, got {found}."
        raise ApiError(400, text, code="invalid_messages", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            text = f'messages[{index}] must be an object with a \'role\', e.g. {{"role": "user", "content": "…"}}.'
            raise ApiError(400, text, code="invalid_messages", param=f"messages[{index}]")
    return messages


def plain_messages(fields: Mapping[str, Any]) -> Sequence[ConversationMessage]:
    """`messages` in the form of chat completions. Raises ApiError 400."""
    return [
        ConversationMessage(one["role"], text_of(one.get("content")), one.get("tool_calls"))
        for one in checked_messages(fields)
    ]


class ModelRequest(JsonBody, ABC):
    """A client's request to a model: its conversation as values, and its bytes with a text inserted."""

    __slots__ = ()

    BESIDE: ClassVar[tuple[str, ...]]  # members that a model reads beside messages: tools, answer format
    ANSWER_LIMITS: ClassVar[tuple[str, ...]]  # members that limit an answer; the first one set counts

    @abstractmethod
    def messages(self) -> Sequence[ConversationMessage]:
        """The conversation, oldest message first, with its instructions. Raises ApiError 400.

        A user message that holds only tool results gets the role tool: the question came earlier.
        """

    def beside_messages(self) -> Sequence[Any]:
        """JSON values of the `BESIDE` members; None if absent."""
        return [self.fields.get(name) for name in self.BESIDE]

    def answer_tokens(self) -> int:
        """The longest answer that the client allows; 0: no limit set."""
        limit = next(filter(None, map(self.fields.get, self.ANSWER_LIMITS)), None)
        return limit if isinstance(limit, int) and limit > 0 else 0

    def person(self, headers: Iterable[tuple[bytes, bytes]] = ()) -> str:
        """Who asks, as the client says by header or body; "": not said. Nobody has checked it."""
        return person_in(headers) or next((one for one in self._persons() if isinstance(one, str)), "")

    def _persons(self) -> Sequence[Any]:
        """Members that name the person, best first."""
        return [self.fields.get("safety_identifier"), self.fields.get("user")]

    @abstractmethod
    def wants_only_text(self) -> bool:
        """Whether the client wants a single text answer by the model alone: no tools, sound or web search."""

    @abstractmethod
    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        """Edits that insert the text. Call `messages` first."""

    @property
    def streamed(self) -> bool:
        return bool(self.fields.get("stream"))

    @property
    def stored(self) -> bool:
        """Whether the provider stores the reply, so that a later request can continue it by id."""
        return False

    @property
    def previous_reply(self) -> str:
        """Id of the stored reply that this request continues; "": none."""
        return ""

    @property
    def conversation(self) -> str:
        """Id of the stored conversation that this request continues; "": none."""
        return ""

    def edited(
        self,
        *,
        model: str | None = None,
        without_rag: bool = False,
        edits: Sequence[Edit] = (),
        context: str = "",
        position: Position = "lead",
    ) -> bytes:
        """The bytes with context at a position, another model name, and no `rag`. Without an edit, `raw` itself."""
        if context:
            edits = [*edits, *self.insertion(context, position)]
        return super().edited(model=model, without_rag=without_rag, edits=edits)


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    path: str  # of its requests, below the gateway's root
    key_header: KeyHeader  # carries an upstream's key
    reader: type[ReplyReader]
    parse: Callable[[bytes], ModelRequest]  # reads a body; raises ApiError 400, like `JsonBody.parse`
    # Tokens that a reply reports, from its first and last bytes, which overlap in a short reply; None: no report.
    # `UsageTap` reads live traffic in this way.
    usage_in: Callable[[bytes, bytes], Tokens | None]
    # The gateway's own replies: whole, or streamed as a frame for each text and an end.
    reply: Callable[[ModelRequest, str, Tokens], bytes]
    reply_frames: Callable[[ModelRequest, Iterable[str], Tokens], Iterator[bytes]]
    # An error answer's body, and the last frame of a stream that broke off: no client may take that for a whole reply.
    # Both take the request id, for APIs that name it in errors.
    error_body: Callable[[ApiError, str], bytes]
    error_frame: Callable[[ApiError, str], bytes]


# --- what a person wrote ----------------------------------------------------------------------------------------------


_TEXTS = ("text", "input_text", "output_text")  # types of parts
_OTHERS = ("image_url", "input_image", "input_audio", "image")  # parts that hold no text


def own_text(message: Mapping[str, Any]) -> str:
    """The last text of a person's message, because clients put context before it; "": another message.

    A part that a coding agent added does not count. A message with a document or a tool's result is another message.
    """
    content = message.get("content")
    if message.get("role") != "user":
        return ""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [one for one in content if isinstance(one, dict) and one.get("type") in (*_TEXTS, *_OTHERS)]
    texts = [one for one in _texts_of(parts) if _without_program(one).strip()]
    return texts[-1] if texts and len(parts) == len(content) else ""


def own_words(messages: Sequence[Any]) -> list[str]:
    """The person's messages, without those that hold no text."""
    found = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
        texts = [content] if isinstance(content, str) else _texts_of(content) if isinstance(content, list) else []
        if text := "\n".join(filter(None, map(_without_program, texts))).strip():
            found.append(text)
    return found


def _texts_of(parts: Sequence[Any]) -> list[str]:
    found = [one.get("text") for one in parts if isinstance(one, dict) and one.get("type") in _TEXTS]
    return [one for one in found if isinstance(one, str)]


def _without_program(text: str) -> str:
    """The text without a coding agent's elements, each from its first opening to its last closing.

    An element quotes files, and a file may hold a closing of its own.
    """
    for name in PROGRAM_ELEMENTS:
        before, opening, rest = text.partition(f"<{name}>")
        if opening:
            _, closing, after = rest.rpartition(f"</{name}>")
            text = before + (after if closing else "")
    return text
