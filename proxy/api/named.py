"""The model named in a listed path's body, JSON or a form, and the body with that name replaced.

The upstream must read the model that we checked: a body that two parsers could read differently is refused.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from proxy.api.multipart import MAX_CONTENT_TYPE_BYTES, PartReader, boundary_of
from proxy.asgi import Scope
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import MAX_MODEL_CHARS, JsonBody

_MULTIPART = b"multipart/"  # some form parsers accept any of these
_URL_ENCODED = b"application/x-www-form-urlencoded"
_MOST_PARTS = 1000
# How an object with names begins, in UTF-8, 16 or 32. Some readers find one in bytes that are not JSON: they stop at
# its end, guess its encoding, accept NaN or a broken letter.
_OBJECT = re.compile(rb'[\s\0\xef\xbb\xbf\xfe\xff]*+\{[\s\0]*+"')
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(rb";\s*name(\*?)\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Named:
    """A body with its model."""

    model: str  # as the client wrote it; "": none
    renamed: Callable[[str], bytes]  # the bytes for an upstream, given its name for the model
    fields: Mapping[str, Any]  # of JSON


def named_in(scope: Scope, raw: bytes) -> Named:
    """The model in a relayed body; "" without one.

    JSON is parsed whatever its content type: some upstreams do not look at that.
    Raises ApiError 400: a model given twice or unreadable; invalid JSON with a JSON type or none, or in a body that
    begins like an object.
    """
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    if raw and len(types) > 1:
        raise ApiError(400, "The request has two content-type headers: send one.", code="conflicting_header")
    media = types[0].partition(b";")[0].strip().lower() if types else b""
    body: JsonBody | None = None
    if raw and b"," in media:
        raise ApiError(400, "The content-type header names two types: send one.", code="conflicting_header")
    if raw and media == _URL_ENCODED:  # it may also be valid JSON that names another model
        message = "URL-encoded forms are not relayed: send application/json or multipart/form-data."
        raise ApiError(415, message, code="unsupported_content_type")
    if media.startswith(_MULTIPART) and raw:
        found = _in_form(raw, types[0])
        if found is not None:
            return found
    elif raw:
        body = _json_of(raw, said=not media or media.endswith((b"/json", b"+json")))
        if body is not None and body.fields.get("model") is not None:
            return in_json(body)
    return Named("", lambda _: raw, body.fields if body is not None else {})


def in_json(body: JsonBody) -> Named:
    """A JSON body's model. Raises ApiError 400 if it has none."""
    return Named(body.model(), lambda model: body.edited(model=model, without_rag=True), body.fields)


def _json_of(raw: bytes, *, said: bool) -> JsonBody | None:
    """The object; None for other JSON, or for other content with another type."""
    try:
        return JsonBody.parse(raw)
    except ApiError as error:
        if not _OBJECT.match(raw) and (error.code == "invalid_body" or (error.code == "invalid_json" and not said)):
            return None
        raise


def _in_form(raw: bytes, content_type: bytes) -> Named | None:
    if len(content_type) > MAX_CONTENT_TYPE_BYTES:
        raise _unreadable(f"its content-type is longer than {MAX_CONTENT_TYPE_BYTES} bytes")
    boundary = boundary_of(content_type)
    if not boundary or content_type.lower().count(b"boundary") != 1:
        raise _unreadable("its content-type names no boundary, or more than one")
    found = _Fields(boundary, raw)
    try:
        found.parser.write(raw)
        found.parser.finalize()
    except FormParserError as error:
        raise _unreadable("it does not keep to the format") from error
    if not found.whole:
        raise _unreadable("it is cut off")
    if raw.count(b"--" + boundary) != found.parts + 1:  # some readers go on past the end
        raise _unreadable("its boundary stands within a part, or behind the end")
    if found.model is None:
        return None
    start, end = found.model
    try:
        model = raw[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable("its model is not UTF-8") from error
    if not model:
        raise ApiError(400, "The form's 'model' is empty: name a model.", code="missing_model", param="model")
    if len(model) > MAX_MODEL_CHARS:
        raise _unreadable(f"its model is longer than {MAX_MODEL_CHARS} characters")
    if not model.isprintable():  # a line break could begin another part
        raise _unreadable("its model has a character that cannot be printed")
    return Named(model, lambda name: raw if name == model else raw[:start] + name.encode() + raw[end:], {})


class _Fields(PartReader):
    """Finds the field `model` among a form's parts."""

    def __init__(self, boundary: bytes, raw: bytes) -> None:
        super().__init__(boundary)
        self._raw = raw
        self.parts = 0
        self._is_model = False
        self.model: tuple[int, int] | None = None  # start and end of the value

    def on_part(self) -> None:
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise _unreadable(f"it has more than {_MOST_PARTS} parts")
        dispositions, encoded = [], False
        for header, value in self.headers:
            if header == b"content-disposition":
                dispositions.append(value)
            elif header == b"content-type" and value.strip().lower().startswith(_MULTIPART):
                raise _unreadable("a part is a form of its own")
            elif header == b"content-transfer-encoding":
                encoded = value.strip().lower() not in (b"7bit", b"8bit", b"binary")
        names = _NAME.findall(_QUOTED.sub(b'""', b"".join(dispositions)))
        if len(dispositions) != 1 or names != [b""]:
            raise _unreadable("a part has no name, or more than one")
        _, said = parse_options_header(dispositions[0])
        name = said.get(b"name", b"")
        if name.lstrip(b" '\"").startswith(b"=?"):  # RFC 2047: some readers decode the name
            raise _unreadable("a part's name is encoded")
        self._is_model = name == b"model"
        if not self._is_model and _read_name(name) == "model":
            message = f"The form's {name.decode('utf-8', 'replace')!r} could be read as 'model': write 'model', once."
            raise ApiError(400, message, code="ambiguous_field", param="model")
        if self._is_model and encoded:
            raise _unreadable("its model is encoded")
        if self._is_model and self.model is not None:
            message = "The form has 'model' twice: send it once."
            raise ApiError(400, message, code="duplicate_field", param="model")
        if self._is_model:
            self.model = (0, 0)

    def on_data(self, data: bytes, start: int, end: int) -> None:
        if not self._is_model:
            return
        assert self.model is not None, "its headers came before"
        if data is not self._raw or self.model[1] not in (0, start):
            raise _unreadable("its model is in pieces")
        self.model = (self.model[0] or start, end)


def _read_name(name: bytes) -> str:
    """A part's name as the most lenient readers take it: "Model", "model[]", "mod%65l", "mod\\el", "'model'"."""
    text = unquote_to_bytes(name.partition(b"[")[0].replace(b"\\", b"")).decode("utf-8", "replace")
    letters = "".join(each for each in unicodedata.normalize("NFKC", text) if unicodedata.category(each)[0] != "C")
    return letters.strip(" '\"").casefold()


def _unreadable(why: str) -> ApiError:
    message = f"The form cannot be read, so its model cannot be checked: {why}."
    return ApiError(400, message, code="invalid_form", param="model")
