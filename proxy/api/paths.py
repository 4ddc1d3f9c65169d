"""Turns a path as clients of other servers write it into the path that we serve.

A base_url may lack /v1, hold /v1 twice or end in a slash, and Azure's clients write
/openai/deployments/NAME/chat/completions. All parts of the gateway see only the served path: rights, limits, routing
and upstream addresses never read two spellings.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from proxy.asgi import Scope, covers
from proxy.body import DEPLOYMENT
from proxy.dialects.messages import COUNT_PATH
from proxy.dialects.paths import BY_PATH

# Relayed to the upstream of the model that the body must name.
WITH_MODEL = ("/v1/embeddings", "/v1/completions")
# These and all paths below are relayed: calls of one model.
MODEL_CALLS = (
    "/v1/audio", "/v1/images", "/v1/moderations", "/v1/rerank", "/v1/score", "/v1/responses/compact",
    "/v1/responses/input_tokens",
)  # fmt: skip
# These, too: objects in an upstream's whole account, and work with them.
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
    """Whether the path is one of `paths`, or below one."""
    return any(covers(each, path) for each in paths)


def canonical(path: str) -> tuple[str, str]:
    """(served path, deployment in a path of Azure's form or "").

    Only paths of OpenAI's and Anthropic's APIs change. After its section name, a path keeps each character, unless it
    is a served path once empty segments are removed: file and model names may hold slashes.
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
    """Give a request its served path."""
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
    """The served path with the client's percent-encoding, if the encoded path has the same form."""
    found = canonical(raw.decode("latin-1"))[0]
    return found.encode("ascii") if found.isascii() and unquote(found) == path else quote(path).encode("ascii")


def _from_azure(scope: Scope) -> None:
    """Move an Azure client's key to `Authorization`, and drop its version: Azure upstreams have one in `api_base`."""
    headers, pairs = scope["headers"], scope["query_string"].split(b"&")
    keys = [value for name, value in headers if name == _AZURES_KEY]
    if len(keys) == 1 and not any(name == b"authorization" for name, _ in headers):
        scope["headers"] = [*headers, (b"authorization", b"Bearer " + keys[0])]
    scope["query_string"] = b"&".join(pair for pair in pairs if pair.partition(b"=")[0].lower() != _AZURES_VERSION)
