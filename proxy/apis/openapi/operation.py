"""An API's operations: as a document describes them, and how settings let them be called.

Every record of a document is stored as JSON."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import unquote_plus

import msgspec

from proxy.apis.openapi.verbs import names_change

Place = Literal["path", "query", "header", "cookie"]
Effect = Literal["reads", "changes"]
Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]

# Plain names by which a header or the query of a request names another method than the request's.
_METHOD_OVERRIDES = frozenset({"_method", "x_http_method_override", "x_http_method", "x_method_override"})
ANY_METHOD = "*"  # of a path item without operations that can be read
MCP = "MCP"  # the method of a tool of an MCP server
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def query_names(url: str) -> frozenset[str]:
    """The names in the query of a URL."""
    pairs = re.split("[&;]", url.partition("#")[0].partition("?")[2])
    return frozenset(unquote_plus(one.partition("=")[0]) for one in pairs if one)


def plain_name(name: str) -> str:
    """The name as servers may read the name of a header or in a query: in any case; a[], a.b and a[b as PHP reads."""
    name = name.partition("\0")[0].strip().lower()
    return re.sub(r"[-. []", "_", name.partition("[")[0] if "]" in name else name)


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name with brackets, each as `plain_name`: filter and tenant of filter[tenant]."""
    parts = name.partition("\0")[0].replace("]", "").split("[") if "]" in name else [name]
    return tuple(plain_name(part) for part in parts if part.strip())


def names_method(name: str) -> bool:
    """Whether some servers read another method by the name."""
    return plain_name(name) in _METHOD_OVERRIDES


def bare_type(media_type: str) -> str:
    """A media type in small letters, without parameters such as the character set."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Whether a media type is JSON: application/json, or a name that ends with +json."""
    bare = bare_type(media_type)
    return bare in ("application/json", "text/json") or bare.endswith("+json")


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A parameter of an operation. `argument` is the name for the model."""

    name: str
    argument: str
    place: Place
    style: Style
    explode: bool
    required: bool = False
    allow_reserved: bool = False
    media_type: str = ""  # of a parameter with `content`, as JSON in a query; "" = by style
    ask: bool = False  # only a person knows the value (x-ragway-ask)


class Encoding(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a property of a form is written."""

    media_type: str = ""  # "" = by the type of the value
    style: Style = "form"
    explode: bool = True
    allow_reserved: bool = False
    by_style: bool = False  # whether the document names a style: a multipart form has no style otherwise


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a request. `argument` is the name for the model."""

    argument: str
    media_type: str
    required: bool = False
    base64: bool = False  # a binary body: the argument is base64
    encodings: dict[str, Encoding] = {}
    binary: tuple[str, ...] = ()  # the files among the properties of a multipart form


class ValueSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a value for another call comes from."""

    origin: Literal["arguments", "result", "before"]  # of the write, its result, or the state read before the write
    path: tuple[str, ...] = ()  # members, from outside to inside; of a result, names of which one has the identifier


class LinkedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another operation of the document, and the sources of its arguments."""

    operation: str
    how: Literal["same", "list", "parent", "created", "name", "delete", "restore", "recreate", "opposite"]
    arguments: dict[str, ValueSource] = {}


class Effects(msgspec.Struct, frozen=True, omit_defaults=True):
    """What shows the effect of a write, and what takes it back."""

    read: LinkedCall | None = None  # before and after the write
    created: LinkedCall | None = None  # the item that a write made: after the write only
    undo: LinkedCall | None = None


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str  # unique within the API; letters, digits, _ and -, at most 64 characters
    method: str  # in capital letters
    path: str  # a template, as /groups/{groupId}/users
    schema: dict[str, Any]  # JSON Schema (2020-12) of all arguments: an object, with its own $defs
    summary: str = ""
    description: str = ""
    operation_id: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    accept: str = ""  # the Accept header: media types of the successful responses; "" = */*
    server: str = ""  # of the operation only; "" = the server of the API
    producers: tuple[str, ...] = ()  # names of operations whose results have the identifiers of the path
    confirm: bool = False  # the document asks for a confirmation (x-ragway-confirm)
    effects: Effects | None = None  # of an operation that changes something; None: nothing is known
    read_only: bool = False  # the MCP server says that the tool only reads (readOnlyHint)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which settings and judged questions mean the operation."""
        return self.name, self.operation_id or self.name, f"{self.method} {self.path}"

    @property
    def effect(self) -> Effect:
        """What a call does, by the method, by the document and by words such as delete and send (`verbs`)."""
        if self.method not in READING_METHODS or self.confirm or self.takes_method:
            return "changes"
        named = names_change(self.operation_id or self.name, self.path, self.summary)
        return "changes" if named else "reads"

    @property
    def takes_method(self) -> bool:
        """Whether some servers read another method from the arguments or the address."""
        names = {one.name for one in self.parameters} | query_names(self.path) | query_names(self.server)
        return any(map(names_method, names))

    @property
    def why_not_called(self) -> Literal["", "could_change"]:
        """Why no call is made, whatever settings and rights say; "": the gateway calls what only reads."""
        return "" if self.effect == "reads" else "could_change"


class Uncallable(msgspec.Struct, frozen=True):
    """An uncallable operation or path item (`ANY_METHOD`) of the document, and the reason."""

    method: str
    path: str
    reason: str


# --- how settings let it be called ------------------------------------------------------------------------------------


# How a call that changes something is made: never, when a person has confirmed it, or at once. The strictest first.
Mode = Literal["refuse", "confirm", "auto"]
_MODES: Sequence[Mode] = ("refuse", "confirm", "auto")


class Granted(Protocol):
    """What a caller may call (`proxy.caller.Rights`)."""

    def mode_of(self, set_name: str, names: Collection[str], effect: Effect) -> Mode:
        """How the caller may call an operation with these names; "refuse": not at all."""
        ...


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """An API's settings for calls that change something. Operations have the names that documents give them."""

    writes: Mode = "refuse"
    reads: Collection[str] = ()  # operations that only read, whatever their method and their words say
    confirm: Collection[str] = ()  # operations that a person confirms, also if they only read
    auto: Collection[str] = ()  # operations that are called at once, although others are confirmed
    four_eyes: Collection[str] = ()  # operations that another person confirms than the one who asked
    idempotency_header: str = ""  # for calls that change something, with a value of the gateway; "" = of the document
    allowed: Mapping[str, Collection[str]] = field(default_factory=dict)  # argument -> the values that may be sent
    calls_per_hour: Mapping[str, int] = field(default_factory=dict)  # operation -> calls of one key
    trust_hints: bool = False  # whether an MCP server is believed that says that a tool only reads

    def effect_of(self, operation: Operation) -> Effect:
        """What a call does. An operation that a person confirms counts as one that changes something."""
        if operation.confirm or operation.takes_method or _named(operation, self.confirm):
            return "changes"
        believed = self.trust_hints and operation.read_only
        return "reads" if believed or _named(operation, self.reads) else operation.effect

    def mode_of(self, operation: Operation) -> Mode:
        """How an operation is called. The document's x-ragway-confirm is never loosened by a setting."""
        return self.mode_and_effect(operation)[0]

    def mode_and_effect(self, operation: Operation) -> tuple[Mode, Effect]:
        """How an operation is called, and what a call does."""
        effect = self.effect_of(operation)
        return ("auto" if effect == "reads" else self._mode_of_change(operation)), effect

    def _mode_of_change(self, operation: Operation) -> Mode:
        if self.writes == "refuse":
            return "refuse"
        if operation.confirm or _named(operation, self.confirm) or self.needs_four_eyes(operation):
            return "confirm"
        return "auto" if _named(operation, self.auto) else self.writes

    def needs_four_eyes(self, operation: Operation) -> bool:
        """Whether another person confirms a call than the one who asked for it."""
        return _named(operation, self.four_eyes)

    def most_calls_an_hour(self, operation: Operation) -> int | None:
        """How often one key may call an operation in an hour; None: no limit."""
        return min((most for name, most in self.calls_per_hour.items() if name in operation.names), default=None)


NO_WRITES = CallPolicy()


def strictest(*modes: Mode) -> Mode:
    """The mode that lets the fewest calls pass."""
    return min(modes, key=_MODES.index)


def _named(operation: Operation, names: Collection[str]) -> bool:
    return bool(names) and not set(operation.names).isdisjoint(names)
