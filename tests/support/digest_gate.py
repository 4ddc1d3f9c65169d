"""A server's side of HTTP Digest (RFC 7616), written from the RFC: a request with a right answer passes."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field

from tests.support.api_server import ApiRequest, Reply

_HASHES = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}
REALM = 'http-auth@example.org, "users"'


@dataclass(slots=True)
class DigestGate:
    """Checks each request. A nonce serves `uses` requests, each with a higher count; afterwards the nonce is stale."""

    user: str
    password: str
    algorithm: str = "SHA-256"
    uses: int = 1000
    other_challenges: tuple[str, ...] = ()  # sent before the Digest challenge
    session: bool = False
    hides_user: bool = False
    one_nonce: str = ""  # the same nonce for all challenges
    any_order: bool = False  # whether a count may be lower than the last, if the count is new
    realm: str = REALM
    counts: dict[str, list[int]] = field(default_factory=dict)  # nonce -> counts seen
    session_cnonces: dict[str, str] = field(default_factory=dict)  # nonce -> cnonce of the first answer

    async def __call__(self, request: ApiRequest) -> Reply:
        given = request.headers.get("authorization", "")
        if not given.startswith("Digest "):
            return self._challenge()
        row = {
            name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"((?:\\.|[^"])*)"|([^,\s]+))', given)
        }
        seen = self.counts.get(row["nonce"])
        if seen is None:
            return self._challenge(stale=True)
        if row["response"] != self.expected(request, row) or row["uri"] != request.target:
            return self._challenge()
        count = int(row["nc"], 16)
        if count in seen or (count < max(seen, default=0) and not self.any_order) or count > self.uses:
            return self._challenge(stale=True)
        seen.append(count)
        return Reply(body=b"in")

    def _hashed(self, *parts: str) -> str:
        return _HASHES[self.algorithm](":".join(parts).encode()).hexdigest()

    def expected(self, request: ApiRequest, row: dict[str, str]) -> str:
        user = self._hashed(self.user, self.realm) if self.hides_user else self.user
        assert row["username"] == user
        assert row["algorithm"] == self.algorithm + ("-sess" if self.session else "")
        assert len(row["nc"]) == 8
        first = self._hashed(self.user, self.realm, self.password)
        if self.session:
            of_session = self.session_cnonces.setdefault(row["nonce"], row["cnonce"])  # RFC 7616 §3.4.2
            first = self._hashed(first, row["nonce"], of_session)
        second = self._hashed(request.method, request.target)
        return self._hashed(first, row["nonce"], row["nc"], row["cnonce"], row["qop"], second)

    def _challenge(self, *, stale: bool = False) -> Reply:
        nonce = self.one_nonce or secrets.token_urlsafe(16)
        self.counts.setdefault(nonce, [])
        realm = self.realm.replace('"', '\\"')
        parts = [f'realm="{realm}"', 'qop="auth, auth-int"', f"algorithm={self.algorithm}{'-sess' * self.session}"]
        parts += [f'nonce="{nonce}"', 'opaque="o=1"', "charset=UTF-8"]
        parts += ["userhash=true"] * self.hides_user + ["stale=true"] * stale
        rows = [*self.other_challenges, f"Digest {', '.join(parts)}"]
        return Reply(401, b"who are you?", [("WWW-Authenticate", row) for row in rows])
