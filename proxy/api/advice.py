"""Answers requests for unknown paths: with the path that was probably meant, or where to find a list.

Each mistake has its own advice: a wrong base_url, an Anthropic client, a mistyped name.
"""

import functools
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

from starlette.routing import compile_path

from proxy.asgi import Scope
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.exchange import EXCHANGE
from runtime.logs import truncate

_OURS = ("knowledge", "admin", "actions")  # /v1/… paths that no upstream knows
_MOST_CHARS = 300  # of a compared path: time grows with the square
_ALIKE = 0.7  # how similar a mistyped name is: "serach" and "search" have .83


class Advice:
    """Knows which paths are served."""

    def __init__(self, served: Iterable[str]) -> None:
        """served: paths, or templates as in the router ("/v1/models/{name:path}")."""
        self._templates = [template.strip("/").split("/") for template in served]
        self._patterns = [compile_path("/" + "/".join(template))[0] for template in self._templates]

    def unknown(self, scope: Scope) -> ApiError:
        """The 404, in the client's dialect."""
        path = scope["path"]
        start = f"{scope['method']} {truncate(path)} is not served here"
        names = [name for name in path.split("/") if name]
        behind = names[len(names) - names[::-1].index("v1") :] if "v1" in names else names  # the last /v1
        anthropic = behind[:1] == ["messages"] or any(name == b"anthropic-version" for name, _ in scope["headers"])
        if anthropic:
            scope[EXCHANGE].dialect = MESSAGES
        meant, why = self._meant(names, behind)
        if meant:
            message = f"{start}: the path is {meant}. {why}"
        elif names[:2] == ["v1", "actions"] and not any(one[:2] == ["v1", "actions"] for one in self._templates):
            message = f"{start}: no API is configured. Add a row to the setting `actions` (docs/use/actions.md)."
        elif names[:2] == ["v1", "realtime"]:
            message = f"{start}: the gateway does not speak WebSocket. Connect realtime clients to the upstream itself."
        elif len(path) <= _MOST_CHARS and (near := self._near(names)):
            message = f"{start}: did you mean {near}?"
            if near.startswith("/v1/knowledge"):
                message += " GET /v1/knowledge/openapi.json lists them all."
        elif names[:1] == ["v1"] and names[1:2] and names[1] not in _OURS:
            message = f"{start}: list it in upstream.paths to relay it."
        else:
            chats = MESSAGES.path if anthropic else CHAT.path
            message = f"{start}: a chat is POST {chats}, and other paths are below /v1."
        return ApiError(404, message, code="unknown_path")

    def _meant(self, names: Sequence[str], behind: Sequence[str]) -> tuple[str, str]:
        """A served path inside the requested one, with the mistake; "" if there is none."""
        found = [
            ("/" + "/".join(names), "It has single slashes, and none at its end."),
            ("/".join(["/v1", *behind]), "A client's base_url ends in /v1, once."),
            ("/" + "/".join(behind), "It is not below /v1."),
        ]
        served = (one for one in found if any(pattern.fullmatch(one[0]) for pattern in self._patterns))
        return next(served, ("", ""))

    def _near(self, names: Sequence[str]) -> str:
        """The path with its typing errors corrected; "" if no served path is similar."""
        found: list[tuple[float, str]] = []
        for template in self._templates:
            if len(template) == len(names):
                likeness = [_likeness(a.lower(), b) for a, b in zip(names, template, strict=True) if b[0] != "{"]
                if min(likeness) >= _ALIKE:
                    filled = [a if b[0] == "{" else b for a, b in zip(names, template, strict=True)]
                    found.append((sum(likeness) / len(likeness), "/" + "/".join(filled)))
        if found:
            return max(found)[1]
        if below := self._below(names):
            return below
        if names[:1] == ["v1"] and any(_likeness(name.lower(), one) >= _ALIKE for name in names[1:2] for one in _OURS):
            every = ["/" + "/".join(template) for template in self._templates]
            return next(iter(get_close_matches("/" + "/".join(names), every, n=1)), "")
        return ""

    def _below(self, names: Sequence[str]) -> str:
        """The first served path below this one, as /v1/chat/completions for /v1/chat; "" for none."""
        below = (
            "/" + "/".join(template)
            for template in self._templates
            if len(template) > len(names) > 1
            and not any(name.startswith("{") for name in template)
            and all(_likeness(a.lower(), b) >= _ALIKE for a, b in zip(names, template, strict=False))
        )
        return next(below, "")


@functools.lru_cache(maxsize=1024)
def _likeness(a: str, b: str) -> float:
    return 1.0 if a == b else SequenceMatcher(None, a, b, autojunk=False).ratio()
