"""The query of a request, which the upstream gets as the client sent the query."""

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from proxy.dialects.errors import ApiError


def models_in(query: bytes) -> Sequence[str]:
    """The models named in a query, in any spelling accepted by parsers: "Model", "model[]", "mod%65l"."""
    pairs = [part.partition(b"=") for part in re.split(rb"[&;]", query)]
    named = [(unquote_to_bytes(name.replace(b"+", b" ")), value) for name, _, value in pairs]
    return [
        unquote_to_bytes(value.replace(b"+", b" ")).decode("utf-8", "replace")
        for name, value in named
        if name.partition(b"[")[0].strip().lower() == b"model"
    ]


def check_models(asked: Sequence[str], called: str) -> None:
    """Raises ApiError 400 where a query names another model than the called model: some upstreams call that model."""
    if any(name != called for name in asked):
        message = f"The query names another model than the one that is called, {called!r}: name it alone."
        raise ApiError(400, message, code="ambiguous_field", param="model")
