"""The HTTP request of a call, built from the OpenAPI document alone, to compare the gateway's requests with.

Written from RFC 6570 (appendix A), which OpenAPI names for the styles, and from the standard library; nothing is shared
with the gateway. The document has no references.
"""

import email
import email.policy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

Json = dict[str, Any]
_FORM, _MULTIPART, _JSON = "application/x-www-form-urlencoded", "multipart/form-data", "application/json"
# Style -> first sign, separator, whether the name is written, and the text after a name without a value.
_OPERATORS = {
    "simple": ("", ",", False, ""),
    "label": (".", ".", False, ""),
    "matrix": (";", ";", True, ""),
    "form": ("", "&", True, "="),
}
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_DEFAULT_STYLES = {"path": "simple", "header": "simple", "query": "form", "cookie": "form"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, in parts that can be compared."""

    method: str
    path: str  # as sent
    query: tuple[str, ...]  # the pairs, as sent
    headers: tuple[tuple[str, str], ...]  # of the document: names in small letters, sorted
    cookies: tuple[str, ...]  # the pairs, as sent
    media_type: str
    body: Any  # JSON: the text of the value; a form: the pairs

    def differences(self, other: "HttpRequest", *, decoded: bool) -> list[str]:
        """The differences, in words. decoded: compare the query after percent-decoding."""
        found = []
        for name in ("method", "path", "query", "headers", "cookies", "media_type", "body"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "query" and decoded:
                mine, theirs = [*map(unquote, mine)], [*map(unquote, theirs)]
            if mine != theirs:
                found.append(f"{name}: {mine!r}, not {theirs!r}")
        return found


def reference_request(document: Json, method: str, path: str, arguments: Mapping[str, Any]) -> HttpRequest:
    """The request for these arguments; the body's argument is `body`."""
    item = document["paths"][path]
    operation = item[method.lower()]
    target, query, headers, cookies = path, list[str](), list[tuple[str, str]](), list[str]()
    for parameter in parameters_of(document, method, path):
        name, place = parameter["name"], parameter["in"]
        if name not in arguments:
            continue
        text = _written(parameter, arguments[name])
        if place == "path":
            target = target.replace("{" + name + "}", text)
        elif place == "header":
            headers.append((name.lower(), text))
        elif text:
            (query if place == "query" else cookies).extend(text.split("&"))
    accepts = [media for response in operation["responses"].values() for media in response.get("content", {})]
    headers += [("accept", accepts[0])] if accepts else []
    media_type, body = "", None
    if "body" in arguments:
        (media_type,) = operation["requestBody"]["content"]
        body = _body_of(media_type, arguments["body"])
    return HttpRequest(method, target, tuple(query), tuple(sorted(headers)), tuple(cookies), media_type, body)


def received_request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpRequest:
    """A request as received; names of headers in small letters."""
    path, _, query = target.partition("?")
    named = sorted((name, value) for name, value in headers.items() if name.startswith("x-") or name == "accept")
    cookies = headers.get("cookie", "")
    content_type = headers.get("content-type", "")
    media_type = content_type.partition(";")[0]
    return HttpRequest(
        method,
        path,
        tuple(query.split("&")) if query else (),
        tuple(named),
        tuple(cookies.split("; ")) if cookies else (),
        media_type,
        _read_body(media_type, content_type, body),
    )


def parameters_of(document: Json, method: str, path: str) -> Sequence[Json]:
    """The parameters of an operation: of the path first."""
    item = document["paths"][path]
    return [*item.get("parameters", []), *item[method.lower()].get("parameters", [])]


def is_decoded(document: Json, method: str, path: str) -> bool:
    """Whether a parameter has `allowReserved`, which leaves the choice of characters to the client."""
    return any(parameter.get("allowReserved") for parameter in parameters_of(document, method, path))


def _written(parameter: Json, value: Any) -> str:
    name, place = parameter["name"], parameter["in"]
    if "content" in parameter:
        return f"{name}={quote(_json(value), safe='')}"
    style = parameter.get("style", _DEFAULT_STYLES[place])
    explode = parameter.get("explode", style == "form")
    if place == "header":
        return ",".join(_header_parts(value, explode))
    if style == "deepObject":
        return "&".join(f"{quote(f'{name}[{key}]', safe='')}={_encoded(one)}" for key, one in value.items())
    if style in _DELIMITERS:
        return f"{quote(name, safe='')}={_DELIMITERS[style].join(map(_encoded, value))}" if value else ""
    return _expanded(style, name, value, explode)


def _header_parts(value: Any, explode: bool) -> Iterator[str]:
    """Texts as given: a header has no percent-encoding."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from [f"{name}={_text(one)}"] if explode else [name, _text(one)]
    else:
        yield from map(_text, value if isinstance(value, list) else [value])


def _expanded(style: str, name: str, value: Any, explode: bool) -> str:
    """A variable by RFC 6570; "" for an empty list, which is undefined there."""
    first, separator, named, empty = _OPERATORS[style]
    name = quote(name, safe="")
    if value in ([], {}):
        return ""
    if not isinstance(value, list | dict):
        text = _encoded(value)
        return first + ((name + (f"={text}" if text else empty)) if named else text)
    if explode:
        pairs = list(value.items()) if isinstance(value, dict) else [(None, one) for one in value]
        parts = []
        for key, one in pairs:
            text = _encoded(one)
            label = quote(key, safe="") if key is not None else name
            parts.append(f"{label}={text}" if key is not None or named else text)
        return first + separator.join(parts)
    flat = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
    joined = ",".join(map(_encoded, flat))
    return first + (f"{name}={joined}" if named else joined)


def _encoded(value: Any) -> str:
    return quote(_text(value), safe="")


def _text(value: Any) -> str:
    """A value as JavaScript writes the value: 5.0 is 5, and 1e-09 is 1e-9."""
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, float) and value == int(value) else _json(value)


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(key)}:{_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, float):
        return re.sub(r"e([+-])0(?=\d)", r"e\1", repr(value))
    return json.dumps(value, ensure_ascii=False)


def _is_json(media_type: str) -> bool:
    return media_type == _JSON or media_type.endswith("+json")


def _body_of(media_type: str, value: Any) -> Any:
    if _is_json(media_type):
        return _json(value)
    return [
        (name, _text(one)) for name, given in value.items() for one in (given if isinstance(given, list) else [given])
    ]


def _read_body(media_type: str, content_type: str, body: bytes) -> Any:
    if _is_json(media_type):
        return _json(json.loads(body))
    if media_type == _FORM:
        return parse_qsl(body.decode(), keep_blank_values=True)
    if media_type == _MULTIPART:
        return list(_parts(content_type, body))
    return body or None


def _parts(content_type: str, body: bytes) -> Iterator[tuple[str, str]]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    for part in message.iter_parts():
        content: Any = part.get_payload(decode=True)
        yield str(part.get_param("name", header="content-disposition")), content.decode("utf-8")
