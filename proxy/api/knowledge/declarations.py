"""Operations by declaration: what the OpenAPI document tells about a handler stands at the handler.

The decorator names method and path. The annotations of `query`, `body` and the answer are the types, the first line of
the docstring is the summary, and the function's name the `operationId`. `endpoint` reads requests by the declaration.
A Struct whose name begins with _ is written out where it is used; others are named schemas.
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
    """An operation of the API."""

    method: str
    path: str
    tag: str
    gives: Mapping[int, tuple[Any, str]]  # status -> type and description of the answer; first the status by default
    media: str = "application/json"  # of the answers
    right: Literal["", "read", "write"] = ""  # to the collection in the path
    query: type[Struct] | None = None
    body: Any = None  # the type of the JSON; None: no body
    raw: bool = False  # the handler gets the fields of the JSON, without a check of the values
    form: type[Struct] | None = None
    told: Mapping[str, Any] = {}  # further words about the body
    words: str = ""  # the description of the operation
    writing: bool = False  # has the deadline of writes
    slow: bool = False  # has deadlines of its own
    streams: bool = False  # the handler sends the answer itself


def operation(
    route: str, tag: str, text: str, *, gives: Any = None, status: int = 200, also: Any = None, **more: Any
) -> Callable[[_F], _F]:
    """Declares a handler. route: method and path. gives: a type in place of the annotation.

    text: describes the answer. also: status -> type and description, of other answers. more: as in `Declaration`.
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
    """The name and the declaration of each handler of a class or a module."""
    for name, handler in vars(owner).items():
        if declaration := getattr(handler, "declaration", None):
            yield name, declaration


def handlers_of(*owners: object) -> dict[str, dict[str, tuple[Declaration, Callable[..., Any]]]]:
    """Path -> method -> the declaration and the handler, for all handlers of modules and objects."""
    found: dict[str, dict[str, tuple[Declaration, Callable[..., Any]]]] = {}
    for owner in owners:
        for name, declared in declared_in(owner if isinstance(owner, ModuleType) else type(owner)):
            found.setdefault(declared.path, {})[declared.method] = (declared, getattr(owner, name))
    return found


def doc(text: str) -> Meta:
    """The description of a type."""
    return Meta(description=text)


def must(be: str) -> Meta:
    """What a value must be, for the text of an error."""
    return Meta(extra_json_schema={"$must": be})


class NamedType(Struct, frozen=True):
    """What the document tells about a named type that is not a Struct."""

    text: str
    one_of: Sequence[Any]  # types in place of its own
    schema: Mapping[str, Any]  # beside its own


NAMED: dict[str, NamedType] = {}


def named(name: str, text: str = "", one_of: Sequence[Any] = (), **schema: Any) -> Meta:
    """A type that is a named schema of the document; of the name alone in a type that contains itself."""
    if name not in NAMED or one_of:
        NAMED[name] = NamedType(text, one_of, schema)
    return Meta(extra_json_schema={"$named": name})


def choices_of(kind: Any) -> Iterator[tuple[Any, ...]]:
    """The values of each Literal in a type, in their order, which msgspec's schemas lose."""
    if get_origin(kind) is Literal:
        yield get_args(kind)
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for hint in get_type_hints(kind, include_extras=True).values():
            yield from choices_of(hint)
    else:
        for part in get_args(kind):
            yield from choices_of(part)
