"""A *dialect*: the object that knows a client API. All other parts of the gateway ask the dialect.

A dialect reads a request (`ModelRequest`), inserts a text, reads a reply (`ReplyReader`) and writes errors. A dialect
has no state, so one object serves all requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import Edit, JsonBody, kind_of
from proxy.dialects.replies import ReplyReader
from proxy.dialects.token_counts import Tokens

# Where the passages go. lead: before the whole conversation. merge: at the end of the client's own instructions.
# tail: at the end of the newest user message.
Position = Literal["lead", "merge", "tail"]


# Elements of text that a coding agent adds to a user's message: Claude Code adds reminders to most messages (notes on
# files, tasks and settings, of any length), Codex and Cline add the environment. A search for this text finds nothing.
_PROGRAM_ELEMENTS = ("system-reminder", "environment_context", "environment_details")

INSTRUCTIONS = ("system", "developer")  # roles

KeyHeader = Literal[b"authorization", b"x-api-key"]  # authorization has the form `Bearer KEY`
X_API_KEY: KeyHeader = b"x-api-key"
PERSON_HEADER = b"x-rag-user"


class ConversationMessage(NamedTuple):
    """A message of a conversation, in a form for all dialects."""

    role: str  # system, developer, user, assistant, tool, or the client's own word
    text: str  # all text parts, joined by line feeds; "" where a message has no text
    calls: Any = None  # the tool calls as JSON; None: no call


def text_of(content: Any, types: Sequence[str] = ("text",)) -> str:
    """The text of a content: a string, or the text parts of a list, of these types; "" if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in types]
    return "\n".join(part for part in parts if isinstance(part, str))


def without_program_text(text: str) -> str:
    """The text without elements that a coding agent adds. An element without an end stays."""
    for name in _PROGRAM_ELEMENTS:
        opening, closing = f"<{name}>", f"</{name}>"
        if opening in text:
            before, *elements = text.split(opening)
            parted = (element.partition(closing) for element in elements)
            text = before + "".join(after if closed else opening + piece for piece, closed, after in parted)
    return text


def index_of_question(users: Sequence[tuple[int, str]]) -> int:
    """The index of the newest user message with text that no program added, else of the newest; -1: no message.

    users: index and text of each user message. Claude Code ends a message of tool results with text of its own: the
    question is an older message, and every round of a tool conversation has the same question.
    """
    asking = [index for index, text in users if without_program_text(text).strip()]
    return max(asking or [index for index, _ in users], default=-1)


def checked_messages(fields: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The member `messages`: at least one message, each with a role. Raises ApiError 400."""
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


class ModelRequest(JsonBody, ABC):
    """A client's request to a model: the conversation as values, and the bytes with a text inserted."""

    __slots__ = ()

    BESIDE: ClassVar[tuple[str, ...]]  # members that the model reads beside the messages: tools, the form of the answer
    ANSWER_LIMITS: ClassVar[tuple[str, ...]]  # members that limit the answer; the first that is set counts

    @abstractmethod
    def messages(self) -> Sequence[ConversationMessage]:
        """The conversation, oldest message first, instructions included. Raises ApiError 400.

        A user message that holds only results of tools has the role tool: the question is an older message.
        """

    def beside_messages(self) -> Sequence[Any]:
        """The JSON values of `BESIDE`; None where absent."""
        return [self.fields.get(name) for name in self.BESIDE]

    def answer_tokens(self) -> int:
        """The longest answer that the client allows; 0: the client sets no limit."""
        limit = next(filter(None, map(self.fields.get, self.ANSWER_LIMITS)), None)
        return limit if isinstance(limit, int) and limit > 0 else 0

    def person(self, headers: Iterable[tuple[bytes, bytes]] = ()) -> str:
        """The client's id of the person who asks, by a header or by the body; "": not said. Nobody has checked it."""
        by_header = next((value.decode("latin-1") for name, value in headers if name == PERSON_HEADER), "")
        return by_header or next((one for one in self._persons() if isinstance(one, str)), "")

    def _persons(self) -> Sequence[Any]:
        """The members that name the person, the best first."""
        return [self.fields.get("safety_identifier"), self.fields.get("user")]

    @abstractmethod
    def wants_only_text(self) -> bool:
        """Whether the client asks for a single answer, in text, by the model alone: no tools, sound or web search."""

    @abstractmethod
    def insertion(self, text: str, position: Position) -> Sequence[Edit]:
        """The edits that insert the text. The caller has called `messages` before."""

    @property
    def streamed(self) -> bool:
        return bool(self.fields.get("stream"))

    @property
    def stored(self) -> bool:
        """Whether the provider stores the reply, so that a later request can continue the reply by id."""
        return False

    @property
    def previous_reply(self) -> str:
        """The id of the stored reply that the request continues; "": none."""
        return ""

    @property
    def conversation(self) -> str:
        """The id of the stored conversation that the request continues; "": none."""
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
        """The bytes with the context at a position, another model name, without `rag`. No edit: `raw` itself."""
        if context:
            edits = [*edits, *self.insertion(context, position)]
        return super().edited(model=model, without_rag=without_rag, edits=edits)


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    path: str  # of the requests, below the gateway's root
    key_header: KeyHeader  # for the key of an upstream
    reader: type[ReplyReader]
    parse: Callable[[bytes], ModelRequest]  # a request's body; raises ApiError 400, as `JsonBody.parse`
    # The tokens that a reply reports, from its first and last bytes, which overlap in a short reply; None: no report.
    # The tap on live traffic (`UsageTap`) reads the usage of whole replies in this way.
    usage_in: Callable[[bytes, bytes], Tokens | None]
    # Replies by the gateway itself with a text: whole; and streamed, a frame for each text, and the stream's end.
    reply: Callable[[ModelRequest, str, Tokens], bytes]
    reply_frames: Callable[[ModelRequest, Iterable[str], Tokens], Iterator[bytes]]
    # The body of an error answer, and the last frame of a stream that cannot be completed: no client takes the reply
    # for a whole reply. Both take the request's id, for an API that names it in errors.
    error_body: Callable[[ApiError, str], bytes]
    error_frame: Callable[[ApiError, str], bytes]
