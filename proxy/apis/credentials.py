"""API credentials: added to a request last, so that no other part of the gateway sees a secret.

Secrets in what an API sends back are replaced by "…": as written, and in encodings that servers use. Content is
normalised first, so that a secret has few forms, and masked before any cut: half a secret would match no form.
"""

import asyncio
import contextlib
import hashlib
import html
import re
import secrets
import time
from base64 import b32encode, b64encode
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator
from typing import Literal
from urllib.parse import quote_plus, unquote_plus

import httpx
import orjson

from proxy.apis.addresses import read_within
from proxy.apis.openapi.operation import Parameter, name_parts

Where = Literal["header", "query", "cookie"]

_EARLY_S = 30.0  # tokens are renewed before they expire
_MOST_TOKEN_BYTES = 1 << 16  # of a token response, and of a response that refuses a token
_MOST_CHALLENGE_CHARS = 4_000
_HASHES = {"md5": "md5", "sha-256": "sha256", "sha-512-256": "sha512_256"}  # RFC 7616 §6.1
# [scheme] name=value; the value may be quoted
_CHALLENGE_PART = re.compile(r'(?<![\w-])(?:([\w-]+)\s+)?([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_PROOF = re.compile(r'\b(?:response|cnonce)="([^"]+)"')


class NoToken(Exception):
    """The token endpoint gave no token; the message has no secret."""


class ApiKey(httpx.Auth):
    """A key in a header, query or cookie; also a token, as `Bearer TOKEN` in the header `authorization`."""

    def __init__(self, key: str, where: Where, name: str) -> None:
        self._key, self.where, self.name = key, where, name

    def is_written_as(self, parameter: Parameter) -> bool:
        """Whether a parameter has the key's place and name."""
        return parameter.place == self.where and name_parts(parameter.name) == name_parts(self.name)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self.where == "header":
            for name in {one for one in request.headers if name_parts(one) == name_parts(self.name)}:
                del request.headers[name]
            request.headers[self.name] = self._key
        elif self.where == "query":
            pair = str(httpx.QueryParams({self.name: self._key}))
            query = request.url.query.decode("ascii")  # written by style: httpx would encode it again
            request.url = request.url.copy_with(query="&".join([*self._others(query, "&"), pair]).encode("ascii"))
        else:
            cookies = self._others(request.headers.get("cookie", ""), "; ")
            request.headers["cookie"] = "; ".join([*cookies, f"{self.name}={self._key}"])
        yield request

    def _others(self, written: str, sign: str) -> list[str]:
        """Pairs without the key's name, which an object member or a redirect may have."""
        own = name_parts(self.name)
        return [one for one in written.split(sign) if one and name_parts(unquote_plus(one.partition("=")[0])) != own]


class Digest(httpx.Auth):
    """HTTP Digest (RFC 7616) with qop=auth. Nonces are used again, with the next count.

    httpx.DigestAuth ignores `stale`, fails on an algorithm that it does not know, and restarts the count when two
    requests get the same nonce.
    """

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password
        self._challenge: dict[str, str] = {}
        self._count = 0  # requests with this nonce
        self._session_nonce = ""  # our own, for this challenge

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        for attempt in (1, 2, 3):
            answered = bool(self._challenge)
            if answered:
                request.headers["authorization"] = self._answer(request)
            response = yield request
            challenge = self._learnt(response)
            if not challenge:
                return
            if answered and attempt > 1 and challenge.get("stale", "").lower() != "true":
                return  # user or password refused

    def probed_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sends the request once, after a GET without its body that brings the newest challenge.

        If the API wants no credentials for that GET, the request itself brings the first challenge.
        """
        self._learnt((yield httpx.Request("GET", request.url, headers={"user-agent": request.headers["user-agent"]})))
        if not self._challenge:
            yield from self.auth_flow(request)
            return
        request.headers["authorization"] = self._answer(request)
        yield request

    def _learnt(self, response: httpx.Response) -> dict[str, str]:
        """A response's challenge, kept for the next answer; none: {}."""
        challenge = _digest_challenge(response) if response.status_code == 401 else {}
        if challenge and challenge["nonce"] != self._challenge.get("nonce"):
            self._challenge, self._count, self._session_nonce = challenge, 0, secrets.token_hex(16)
        return challenge

    def _answer(self, request: httpx.Request) -> str:
        row = self._challenge
        algorithm = row.get("algorithm", "MD5")
        bare = algorithm.lower().removesuffix("-sess")

        def hashed(*parts: str) -> str:
            return hashlib.new(_HASHES[bare], ":".join(parts).encode(), usedforsecurity=False).hexdigest()

        self._count += 1
        realm, nonce, count, own_nonce = row["realm"], row["nonce"], f"{self._count:08x}", secrets.token_hex(16)
        user = hashed(self._user, realm, self._password)
        if bare != algorithm.lower():  # a session: some servers read the first cnonce, some the newest
            own_nonce = self._session_nonce
            user = hashed(user, nonce, own_nonce)
        uri = request.url.raw_path.decode("ascii")
        middle = (nonce, count, own_nonce, "auth") if "qop" in row else (nonce,)  # without qop: RFC 2069
        hides_user = row.get("userhash", "").lower() == "true"
        quoted = {
            "username": hashed(self._user, realm) if hides_user else self._user,
            "realm": realm,
            "nonce": nonce,
            "uri": uri,
            "response": hashed(user, *middle, hashed(request.method, uri)),
        }
        bare_values = {"algorithm": algorithm} if "algorithm" in row else {}
        if "qop" in row:
            quoted["cnonce"] = own_nonce
            bare_values |= {"qop": "auth", "nc": count}
        if "opaque" in row:
            quoted["opaque"] = row["opaque"]
        if hides_user:
            bare_values["userhash"] = "true"
        values = [f'{name}="{_escaped(value)}"' for name, value in quoted.items()]
        return "Digest " + ", ".join([*values, *(f"{name}={value}" for name, value in bare_values.items())])


class ClientCredentials(httpx.Auth):
    """OAuth 2.0 client credentials (RFC 6749 §4.4): a cached token, fetched by one request at a time.

    After a 401 the token is fetched again, once.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        scope: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token_url, self._scope, self._clock = token_url, scope, clock
        self._client = quote_plus(client_id), quote_plus(client_secret)  # RFC 6749 §2.3.1
        self.token, self._until_s = "", 0.0
        self._fetching = asyncio.Lock()
        self._failures, self._failure = 0, ""  # token endpoint failures: how many, and the last

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Raises NoToken."""
        for attempt in (1, 2):
            failures = self._failures
            async with self._fetching:
                if not self.token or self._clock() > self._until_s:
                    if self._failures != failures:  # another request asked meanwhile, in vain
                        raise NoToken(self._failure)
                    answer = yield self._token_request()
                    self._keep(answer.status_code, (await read_within(answer, _MOST_TOKEN_BYTES))[0])
            sent = self.token
            request.headers["authorization"] = f"Bearer {sent}"
            response = yield request
            if response.status_code != 401 or attempt == 2:
                return
            if self.token == sent:  # no other request has fetched a new token meanwhile
                self.token = ""
            # The token request needs a connection, and all might be held by waiting requests.
            await read_within(response, _MOST_TOKEN_BYTES)
            await response.aclose()

    def _token_request(self) -> httpx.Request:
        fields = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        asked = httpx.Request("POST", self._token_url, data=fields, headers=headers)
        return next(httpx.BasicAuth(*self._client).auth_flow(asked))

    def _keep(self, status: int, content: bytes) -> None:
        try:
            row = orjson.loads(content) if 200 <= status < 300 else {}
            token, seconds = row["access_token"], float(row.get("expires_in") or 300)
            if not isinstance(token, str) or not token:
                raise TypeError("the token is not a text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._failures += 1
            self._failure = f"the token endpoint answered with status {status} and no token"
            raise NoToken(self._failure) from error
        self.token, self._until_s = token, self._clock() + max(seconds - _EARLY_S, seconds / 2)


async def sent_once(auth: httpx.Auth | None, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
    """Sends a request once, whatever the API answers; before it, if needed, one for a challenge or token."""
    if isinstance(auth, Digest) and request.method not in ("GET", "HEAD"):
        for_challenge = auth.probed_flow(request)
        with contextlib.suppress(StopIteration):
            step = next(for_challenge)
            while True:
                step = for_challenge.send((yield step))
        return
    flow = (auth or httpx.Auth()).async_auth_flow(request)
    async with contextlib.aclosing(flow):
        step = await anext(flow)
        while isinstance(auth, ClientCredentials) and step is not request:
            step = await flow.asend((yield step))
        response = yield step
        if isinstance(auth, ClientCredentials) and response.status_code == 401:
            auth.token = ""  # the next request fetches another
        elif isinstance(auth, Digest):
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    response = yield await flow.asend(response)


def sent_credentials(request: httpx.Request) -> list[str]:
    """What a request's Authorization header has after its scheme, and any digest proofs in it."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return [value, *(_PROOF.findall(value) if scheme == "Digest" else ())]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _digest_challenge(response: httpx.Response) -> dict[str, str]:
    """Parts of the first challenge that Digest can answer; none: {}."""
    challenges: list[dict[str, str]] = []
    for scheme, name, quoted, bare in _CHALLENGE_PART.findall(
        ", ".join(response.headers.get_list("www-authenticate"))[:_MOST_CHALLENGE_CHARS]
    ):
        if scheme:
            challenges.append({"": scheme.lower()})
        if challenges:
            challenges[-1][name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
    return next(filter(_is_supported, challenges), {})


def _is_supported(row: dict[str, str]) -> bool:
    algorithm = row.get("algorithm", "MD5").lower().removesuffix("-sess")
    qops = [one.strip().lower() for one in row.get("qop", "auth").split(",")]
    return row[""] == "digest" and {"realm", "nonce"} <= row.keys() and algorithm in _HASHES and "auth" in qops


# --- masking ----------------------------------------------------------------------------------------------------------


MASK = "…"
_SHORTEST_MASKED = 3  # characters: shorter texts occur in every result
_WORDS_OF_JSON = frozenset({"true", "false", "null"})  # hide nothing, and occur in every result
_WHOLE_WORD_BELOW = 8  # characters: shorter texts, and numbers, are masked only as whole words
_JSON_ESCAPE = re.compile(rb"\\\\|\\u00([2-7][0-9a-fA-F])|\\/")
_HTML_REFERENCE = re.compile(rb"&#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")
_DEEP_ESCAPE = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_DEEP_REFERENCE = re.compile(rb"&(?:amp;)*#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")
_LEAST_BROKEN = 16  # letters of an encoded secret that may be broken by line ends or colons
_BREAK = rb"(?:[\s:]|\\{1,8}[rn])"
_ALIGNMENTS = 3  # within base64, in which three bytes are four letters
_PLAIN_RUN = re.compile(r"[A-Za-z0-9._-]+")  # nearly all encoders leave these as they are
_RUN_OR_SIGN = re.compile(rf"{_PLAIN_RUN.pattern}|\\+|(?s:.)")
_ENTITIES = {"&": "amp|", "<": "lt|", ">": "gt|", '"': "quot|", "'": "apos|"}
_SHORT = {
    " ": rb"\+",
    **{sign: rb"\\{1,16}" + letter.encode() for sign, letter in zip("\b\f\n\r\t", "bfnrt", strict=True)},
}
_MOST_SPELLED_BYTES = 24  # for one byte of a sign
_MOST_ESCAPED = 3  # times as long: a form with line breaks, or with its letters escaped


def masked(content: bytes, secrets: Iterable[str]) -> bytes:
    """Content without secrets. The longest goes first: one may contain another, as a token may hold its client id."""
    wanted = sorted(filter(_is_masked, secrets), key=len, reverse=True)
    for secret in wanted:
        content = _masked(content, secret)
    plain = _plain(content)
    if plain != content:  # unescape only if a secret has escaped letters
        found = plain
        for secret in wanted:
            found = _masked(found, secret)
        content = found if found != plain else content
    return content


def _plain(content: bytes) -> bytes:
    """Content without escapes of printable ASCII at any level: HTML within JSON, JSON within JSON or HTML."""
    if b"u00" in content:
        content = _DEEP_ESCAPE.sub(_deep_character, content)
    return _DEEP_REFERENCE.sub(_character, content) if b"#" in content else content


def _deep_character(found: re.Match[bytes]) -> bytes:
    character = bytes.fromhex(found[1].decode())
    return found[0] if character in b'"\\\x7f' else character


def longest_form_bytes(secrets: Iterable[str]) -> int:
    """Length of the secrets' longest form, in bytes; 0: no secret."""
    lengths = [0]
    for secret in filter(_is_masked, secrets):
        signs = len(_PLAIN_RUN.sub("", secret).encode("utf-8", "replace"))
        lengths += [len(secret) + signs * _MOST_SPELLED_BYTES, *map(len, _forms(secret))]
    return max(lengths) * _MOST_ESCAPED


def masked_ends(text: str, secrets: Collection[str], max_chars: int) -> str:
    """Text without secrets. A long text keeps only its ends, and only these are searched.

    Both ends are cut with a margin before the search and without it afterwards, because half a secret matches no form.
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
    """HTML or XML with numeric ASCII references as characters, or as `html.escape` writes them."""
    return _HTML_REFERENCE.sub(_character, content) if b"&#" in content else content


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return b"/" if found[0] == rb"\/" else found[0]
    return _deep_character(found)


def _character(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16) if found[1] else int(found[2])
    return html.escape(chr(code)).encode() if 0x20 <= code < 0x7F else found[0]


def _masked(content: bytes, secret: str) -> bytes:
    if secret.isdecimal():  # a JSON number becomes a string, so JSON stays valid
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
    """Content without the secret in base64, base32 or hex with line breaks or colons: MIME, Ruby."""
    joined = content.lower().replace(rb"\n", b"").replace(rb"\r", b"").translate(None, b" \t\r\n\f\v:\\")
    for form in {one for one in _packed(secret) if len(one) >= _LEAST_BROKEN and one.lower().encode() in joined}:
        pattern = (_BREAK + rb"*+").join(re.escape(letter.encode()) for letter in form)
        content = re.sub(pattern, MASK.encode(), content, flags=re.IGNORECASE)
    return content


def _masked_signs(content: bytes, secret: str, *, whole_word: bool) -> bytes:
    """Content without the secret, even if each of its signs is escaped in another way.

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
    """A pattern for a run of plain characters, backslashes, or one other sign."""
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
    """The secret as written, percent-encoded byte by byte, in UTF-16, and packed; `_masked_signs` knows the rest."""
    raw = secret.encode("utf-8", "replace")
    texts = {raw, "".join(f"%{one:02X}" for one in raw).encode()}
    wide = {secret.encode(codec, "replace") for codec in ("utf-16-le", "utf-16-be")}
    return texts | wide | {text.encode() for text in _packed(secret)}


def _packed(secret: str) -> set[str]:
    """The secret in base64, also for URLs, in base32 and in hex."""
    raw = secret.encode("utf-8", "replace")
    packed = set(_in_base64(raw))
    packed |= {letters.replace("+", "-").replace("/", "_") for letters in packed}
    return packed | {b32encode(raw).decode().rstrip("="), raw.hex()}


def _in_base64(raw: bytes) -> Iterator[str]:
    """The bytes in base64, and the letters that encode only them within longer base64."""
    yield b64encode(raw).decode().rstrip("=")
    for before in range(_ALIGNMENTS):
        letters = b64encode(bytes(before) + raw).decode()[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(letters) >= _WHOLE_WORD_BELOW:
            yield letters
