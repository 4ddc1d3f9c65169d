"""Secrets in what an API sends back, replaced by "…": as written, and in the encodings in which servers write texts.

The content is normalised before, so that a secret has few forms, and masked before any cut: half of a secret would
match no form.
"""

import html
import re
from base64 import b32encode, b64encode
from collections.abc import Collection, Iterable, Iterator

MASK = "…"
_SHORTEST_MASKED = 3  # characters: a shorter text stands in every result
_WORDS_OF_JSON = frozenset({"true", "false", "null"})  # hide nothing, and each result has the words
_WHOLE_WORD_BELOW = 8  # characters: a shorter text, and a number, are masked as a whole word only
_JSON_ESCAPE = re.compile(rb"\\\\|\\u00([2-7][0-9a-fA-F])|\\/")
_HTML_REFERENCE = re.compile(rb"&#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")
_DEEP_ESCAPE = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_DEEP_REFERENCE = re.compile(rb"&(?:amp;)*#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")
_LEAST_BROKEN = 16  # letters of an encoded secret that may have line breaks or colons between the letters
_BREAK = rb"(?:[\s:]|\\{1,8}[rn])"
_ALIGNMENTS = 3  # of a text within base64: three bytes are four letters
_PLAIN_RUN = re.compile(r"[A-Za-z0-9._-]+")  # written as they are by nearly all encoders
_RUN_OR_SIGN = re.compile(rf"{_PLAIN_RUN.pattern}|\\+|(?s:.)")
_ENTITIES = {"&": "amp|", "<": "lt|", ">": "gt|", '"': "quot|", "'": "apos|"}
_SHORT = {
    " ": rb"\+",
    **{sign: rb"\\{1,16}" + letter.encode() for sign, letter in zip("\b\f\n\r\t", "bfnrt", strict=True)},
}
_MOST_SPELLED_BYTES = 24  # of one byte of a sign
_MOST_ESCAPED = 3  # times as long is a form with line breaks, or whose letters are escapes


def masked(content: bytes, secrets: Iterable[str]) -> bytes:
    """The content without the secrets. The longest is first: a secret may contain another, as a token the client."""
    wanted = sorted(filter(_is_masked, secrets), key=len, reverse=True)
    for secret in wanted:
        content = _masked(content, secret)
    plain = _plain(content)
    if plain != content:  # letters of a secret may be escapes: only then the escapes go
        found = plain
        for secret in wanted:
            found = _masked(found, secret)
        content = found if found != plain else content
    return content


def _plain(content: bytes) -> bytes:
    """The content without escapes of printable ASCII at any level: HTML within JSON, JSON within JSON or HTML."""
    if b"u00" in content:
        content = _DEEP_ESCAPE.sub(_deep_character, content)
    return _DEEP_REFERENCE.sub(_character, content) if b"#" in content else content


def _deep_character(found: re.Match[bytes]) -> bytes:
    character = bytes.fromhex(found[1].decode())
    return found[0] if character in b'"\\\x7f' else character


def longest_form_bytes(secrets: Iterable[str]) -> int:
    """The length of the longest form of the secrets; 0: no secret."""
    lengths = [0]
    for secret in filter(_is_masked, secrets):
        signs = len(_PLAIN_RUN.sub("", secret).encode("utf-8", "replace"))
        lengths += [len(secret) + signs * _MOST_SPELLED_BYTES, *map(len, _forms(secret))]
    return max(lengths) * _MOST_ESCAPED


def masked_ends(text: str, secrets: Collection[str], max_chars: int) -> str:
    """The text without the secrets, where a long text keeps its ends alone: only what is kept is searched.

    Both ends are cut with a margin before the search, and without it afterwards: half of a secret matches no form.
    """
    half, margin = max_chars // 2, longest_form_bytes(secrets)
    if len(text) <= max_chars + 2 * margin:
        whole = _masked_text(text, secrets)
        if len(whole) <= max_chars:
            return whole
    start = _masked_text(text[: half + 2 * margin], secrets)
    end = _masked_text(text[-half - 2 * margin :], secrets)
    start, end = start[: max(0, len(start) - margin)][:half], end[margin:][-half:]
    return f"{start} … {len(text) - len(start) - len(end):,} characters left out … {end}"


def _masked_text(text: str, secrets: Iterable[str]) -> str:
    return masked(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")


def _is_masked(secret: str) -> bool:
    return len(secret) >= _SHORTEST_MASKED and secret not in _WORDS_OF_JSON


def plain_json(content: bytes) -> bytes:
    """JSON without escapes of printable ASCII: Go writes < as \\u003c, PHP writes / as \\/."""
    return _JSON_ESCAPE.sub(_unescaped, content) if b"\\" in content else content


def plain_html(content: bytes) -> bytes:
    """HTML or XML with numeric references of ASCII as characters, or in the form of `html.escape`."""
    return _HTML_REFERENCE.sub(_character, content) if b"&#" in content else content


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return b"/" if found[0] == rb"\/" else found[0]
    return _deep_character(found)


def _character(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16) if found[1] else int(found[2])
    return html.escape(chr(code)).encode() if 0x20 <= code < 0x7F else found[0]


def _masked(content: bytes, secret: str) -> bytes:
    if secret.isdecimal():  # a number of JSON becomes a text, and the JSON stays JSON
        number = re.escape(secret.encode())
        content = re.sub(rb"([\[:,]\s*)" + number + rb"(?=\s*[,\]}])", f'\\1"{MASK}"'.encode(), content)
    whole_word = len(secret) < _WHOLE_WORD_BELOW or secret.isdecimal()
    content = _masked_signs(content, secret, whole_word=whole_word)
    lower = content.lower()
    for form in sorted(_forms(secret), key=len, reverse=True):
        if form.lower() not in lower:  # ten times as fast as a search by re
            continue
        pattern = re.escape(form)
        if whole_word:
            content = re.sub(rb"(?<!\w)" + pattern + rb"(?!\w)", MASK.encode(), content)
        else:
            content = re.sub(pattern, MASK.encode(), content, flags=re.IGNORECASE)
    return _masked_broken(content, secret)


def _masked_broken(content: bytes, secret: str) -> bytes:
    """The content without the secret in base64, base32 or hexadecimal digits with line breaks or colons: MIME, Ruby."""
    joined = content.lower().replace(rb"\n", b"").replace(rb"\r", b"").translate(None, b" \t\r\n\f\v:\\")
    for form in {one for one in _packed(secret) if len(one) >= _LEAST_BROKEN and one.lower().encode() in joined}:
        pattern = (_BREAK + rb"*+").join(re.escape(letter.encode()) for letter in form)
        content = re.sub(pattern, MASK.encode(), content, flags=re.IGNORECASE)
    return content


def _masked_signs(content: bytes, secret: str, *, whole_word: bool) -> bytes:
    """The content without the secret, where each sign may be written in another way than the other signs.

    encodeURIComponent leaves ! and * as they are, XML leaves quotes, and Java writes ~ as %7E.
    """
    runs = _PLAIN_RUN.findall(secret)
    lower = content.lower()
    if runs == [secret] or any(run.lower().encode() not in lower for run in runs):
        return content
    pattern = b"".join(map(_spellings, _RUN_OR_SIGN.findall(secret)))
    if whole_word:
        return re.sub(rb"(?<!\w)" + pattern + rb"(?!\w)", MASK.encode(), content)
    return re.sub(pattern, MASK.encode(), content, flags=re.IGNORECASE)


def _spellings(part: str) -> bytes:
    """A pattern for a run of plain characters, for backslashes, or for one other sign."""
    if _PLAIN_RUN.fullmatch(part):
        return re.escape(part.encode())
    sign = part[0]
    raw = sign.encode("utf-8", "replace")
    in_url = b"".join(b"%%(?:25){0,2}%02x" % byte for byte in raw)
    in_json = rb"\\{1,16}" + rb"\\{1,16}".join(b"u%02x%02x" % pair for pair in _utf16(sign))
    in_html = "&(?:amp;)?(?:{}#0{{0,3}}{}|#x0{{0,3}}{:x});?".format(_ENTITIES.get(sign, ""), ord(sign), ord(sign))
    short = [_SHORT[sign]] if sign in _SHORT else []
    others = b"|".join([in_url, in_json, in_html.encode(), *short])
    if sign == "\\":  # twice as many at each level of JSON
        return b"(?:(?i:%s){%d}|\\\\{%d,%d})" % (others, len(part), len(part), len(part) * 16)
    escaped = rb"\\{0,15}" if sign in "\"'/" else b""
    return b"(?>(?i:%s)|%s%s)" % (others, escaped, re.escape(raw))


def _utf16(text: str) -> Iterator[tuple[int, int]]:
    packed = text.encode("utf-16-be", "replace")
    return zip(packed[::2], packed[1::2], strict=True)


def _forms(secret: str) -> set[bytes]:
    """The secret as written, with each byte percent-encoded, in UTF-16, and packed; `_masked_signs` knows the rest."""
    raw = secret.encode("utf-8", "replace")
    texts = {raw, "".join(f"%{one:02X}" for one in raw).encode()}
    wide = {secret.encode(codec, "replace") for codec in ("utf-16-le", "utf-16-be")}
    return texts | wide | {text.encode() for text in _packed(secret)}


def _packed(secret: str) -> set[str]:
    """The secret in base64, also of URLs, in base32 and in hexadecimal digits."""
    raw = secret.encode("utf-8", "replace")
    packed = set(_in_base64(raw))
    packed |= {letters.replace("+", "-").replace("/", "_") for letters in packed}
    return packed | {b32encode(raw).decode().rstrip("="), raw.hex()}


def _in_base64(raw: bytes) -> Iterator[str]:
    """The base64 of the bytes, and the letters that stand for the bytes alone within a longer base64 text."""
    yield b64encode(raw).decode().rstrip("=")
    for before in range(_ALIGNMENTS):
        letters = b64encode(bytes(before) + raw).decode()[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(letters) >= _WHOLE_WORD_BELOW:
            yield letters
