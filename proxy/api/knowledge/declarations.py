"""Declares operations: what the OpenAPI document says about a handler is written at the handler.

The decorator names method and path. Annotations of `query`, `body` and the answer are its types, a docstring's first
line is the summary, and the function's name is the `operationId`. `endpoint` reads requests by this declaration. A
Struct whose name begins with _ is written out where it is used; others are named schemas.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

_F = TypeVar("_F", bound=Callable[..., Any])


STRUCTS: dict[str, type[Struct]] = {}  # by name


class Open(Struct, frozen=True):
    """A JSON object that may have further members."""

    def __init_subclass__(cls) -> None:
        STRUCTS[cls.__name__] = cls


class Closed(Open, frozen=True, forbid_unknown_fields=True):
    """A JSON object without further members."""


class Declaration(Struct, frozen=True):
    """One API operation."""

    method: str
    path: str
    tag: str
    gives: Mapping[int, tuple[Any, str]]  # status -> an answer's type and description; the default status comes first
    media: str = "application/json"  # of answers
    right: Literal["", "read", "write"] = ""  # to the collection in the path
    query: type[Struct] | None = None
    body: Any = None  # the JSON's type; None: no body
    raw: bool = False  # the handler gets the JSON's fields, with values unchecked
    form: type[Struct] | None = None
    told: Mapping[str, Any] = {}  # more words about the body
    words: str = ""  # the operation's description
    writing: bool = False  # has the deadline for writes
    slow: bool = False  # has its own deadlines
    streams: bool = False  # the handler itself sends the answer


def operation(
    route: str, tag: str, text: str, *, gives: Any = None, status: int = 200, also: Any = None, **more: Any
) -> Callable[[_F], _F]:
    """Declares a handler. route: method and path. gives: a type instead of the annotation.

    text: describes the answer. also: status -> type and description of other answers. more: as in `Declaration`.
    """
    method, path = route.split()

    def marked(handler: _F) -> _F:
        types = get_type_hints(handler, include_extras=True)
        answer, body = gives or types["return"], types.get("body")
        if get_origin(answer) is tuple:  # of status and body
            answer = get_args(answer)[1]
        answer = None if answer is type(None) else answer
        if get_origin(body) is Annotated:
            body, more["raw"] = get_args(body)[1], True
        told = {"query": types.get("query"), "body": body, **more}
        declared = Declaration(method, path, tag, {status: (answer, text), **(also or {})}, **told)
        handler.declaration = declared  # type: ignore[attr-defined]
        return handler

    return marked


def declared_in(owner: type | ModuleType) -> Iterator[tuple[str, Declaration]]:
    """Name and declaration of each handler in a class or a module."""
    for name, handler in vars(owner).items():
        if declaration := getattr(handler, "declaration", None):
            yield name, declaration


def handlers_of(*owners: object) -> dict[str, dict[str, tuple[Declaration, Callable[..., Any]]]]:
    """Path -> method -> declaration and handler, for all handlers in modules and objects."""
    found: dict[str, dict[str, tuple[Declaration, Callable[..., Any]]]] = {}
    for owner in owners:
        for name, declared in declared_in(owner if isinstance(owner, ModuleType) else type(owner)):
            found.setdefault(declared.path, {})[declared.method] = (declared, getattr(owner, name))
    return found


def doc(text: str) -> Meta:
    """A type's description."""
    return Meta(description=text)


def must(be: str) -> Meta:
    """What a value must be, for an error text."""
    return Meta(extra_json_schema={"$must": be})


class NamedType(Struct, frozen=True):
    """What the document says about a named type that is not a Struct."""

    text: str
    one_of: Sequence[Any]  # types instead of its own
    schema: Mapping[str, Any]  # added to its own


NAMED: dict[str, NamedType] = {}


def named(name: str, text: str = "", one_of: Sequence[Any] = (), **schema: Any) -> Meta:
    """A type that becomes a named schema in the document; if it contains itself, give only its name inside."""
    if name not in NAMED or one_of:
        NAMED[name] = NamedType(text, one_of, schema)
    return Meta(extra_json_schema={"$named": name})


def choices_of(kind: Any) -> Iterator[tuple[Any, ...]]:
    """Values of each Literal in a type, in their order, which msgspec's schemas lose."""
    if get_origin(kind) is Literal:
        yield get_args(kind)
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for hint in get_type_hints(kind, include_extras=True).values():
            yield from choices_of(hint)
    else:
        for part in get_args(kind):
            yield from choices_of(part)
