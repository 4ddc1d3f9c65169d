"""The form of a path: a path as clients of other servers write the path becomes the served path.

A base_url may lack /v1, hold /v1 twice or end in a slash, and Azure's clients write
/openai/deployments/NAME/chat/completions. All parts of the gateway see the served path alone: rights, limits, the
search for a route and the address at the upstream never read two spellings of a path.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from proxy.asgi import Scope, covers
from proxy.body import DEPLOYMENT
from proxy.dialects.messages import COUNT_PATH
from proxy.dialects.paths import BY_PATH

# Relayed to the upstream of the model in the body, which must name a model.
WITH_MODEL = ("/v1/embeddings", "/v1/completions")
# These paths and all paths below are relayed: calls of one model.
MODEL_CALLS = (
    "/v1/audio", "/v1/images", "/v1/moderations", "/v1/rerank", "/v1/score", "/v1/responses/compact",
    "/v1/responses/input_tokens",
)  # fmt: skip
# These, too: objects of the upstream's whole account, and work with the objects.
ACCOUNT = (
    "/v1/assistants", "/v1/batches", "/v1/containers", "/v1/conversations", "/v1/evals", "/v1/fine_tuning",
    "/v1/messages/batches", "/v1/threads", "/v1/uploads", "/v1/videos",
)  # fmt: skip
_OF_A_DEPLOYMENT = frozenset({
    *BY_PATH, *WITH_MODEL, "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
    "/v1/images/edits", "/v1/images/generations", "/v1/images/variations",
})  # fmt: skip
EXACT = _OF_A_DEPLOYMENT.union(MODEL_CALLS, ACCOUNT, (COUNT_PATH, "/v1/models", "/v1/files", "/v1/vector_stores"))
_SECTIONS = frozenset(path.split("/")[2] for path in EXACT)
_PREFIX = re.compile(r"/+(?:(?:openai|v1)/+)*")
_CALLED = "|".join(sorted(re.escape(path.removeprefix("/v1/")) for path in _OF_A_DEPLOYMENT))
_DEPLOYMENT = re.compile(f"deployments/(.+?)/({_CALLED})")
_AZURES_KEY = b"api-key"
_AZURES_VERSION = b"api-version"


def covered(path: str, paths: Iterable[str]) -> bool:
    """Whether the path is one of the paths, or below."""
    return any(covers(each, path) for each in paths)


def canonical(path: str) -> tuple[str, str]:
    """(the served path, the deployment in a path of Azure's form or "").

    Only paths of OpenAI's and Anthropic's APIs change. Behind the name of a section a path keeps each character, unless
    the path without empty segments is a served path: the name of a file or a model may hold slashes.
    """
    found = _PREFIX.match(path)
    rest = path[found.end() :] if found else ""
    segments = [segment for segment in rest.split("/") if segment]
    tidy = "/".join(segments)
    if (served := f"/v1/{tidy}") in EXACT:
        return served, ""
    if deployed := _DEPLOYMENT.fullmatch(tidy):
        return f"/v1/{deployed[2]}", deployed[1]
    return (f"/v1/{rest}" if segments and segments[0] in _SECTIONS else path), ""


def rewrite(scope: Scope) -> None:
    """Give a request the served path."""
    path, deployment = canonical(scope["path"])
    if path == scope["path"]:
        return
    if deployment or scope["path"].lstrip("/").startswith("openai/"):
        _from_azure(scope)
    if deployment:
        scope[DEPLOYMENT] = deployment
    scope["raw_path"] = _encoded(scope.get("raw_path") or b"", path)
    scope["path"] = path


def _encoded(raw: bytes, path: str) -> bytes:
    """The served path with the client's percent-encoding, where the encoded path has the same form."""
    found = canonical(raw.decode("latin-1"))[0]
    return found.encode("ascii") if found.isascii() and unquote(found) == path else quote(path).encode("ascii")


def _from_azure(scope: Scope) -> None:
    """Give a request of Azure's client the key in `Authorization`, and no version: an upstream of Azure's has a version
    in `api_base`.
    """
    headers, pairs = scope["headers"], scope["query_string"].split(b"&")
    keys = [value for name, value in headers if name == _AZURES_KEY]
    if len(keys) == 1 and not any(name == b"authorization" for name, _ in headers):
        scope["headers"] = [*headers, (b"authorization", b"Bearer " + keys[0])]
    scope["query_string"] = b"&".join(pair for pair in pairs if pair.partition(b"=")[0].lower() != _AZURES_VERSION)
