"""The records of an API's operations. Every record is stored as JSON."""

from typing import Any, Literal

import msgspec

Place = Literal["path", "query", "header", "cookie"]
Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]

# Names, in small letters, by which a header or the query of a request names another method than the request's.
METHOD_OVERRIDES = frozenset({"_method", "x-http-method-override", "x-http-method", "x-method-override"})
ANY_METHOD = "*"  # of a path item without operations that can be read
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


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


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of an API."""

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

    @property
    def reads(self) -> bool:
        """Whether a call only reads, by the method and by the document."""
        pairs = self.path.partition("#")[0].partition("?")[2].split("&")
        names = {*(one.name for one in self.parameters), *(one.partition("=")[0] for one in pairs)}
        overridden = not METHOD_OVERRIDES.isdisjoint(map(str.lower, names))
        return self.method in READING_METHODS and not self.confirm and not overridden


class Uncallable(msgspec.Struct, frozen=True):
    """An uncallable operation or path item (`ANY_METHOD`) of the document, and the reason."""

    method: str
    path: str
    reason: str
