"""Texts to unit vectors by a provider's API, through litellm: the one door to it outside the gateway's translated lane.

litellm is imported at the first call (seconds, 170 MB), in the index process and in its child for ingest. It is told to
retry nothing: a question is asked once, for a chat does not wait; documents are sent again a few times, each time after
a longer pause. What a provider answers is checked before it goes anywhere: number, length and values of the vectors.
"""

import base64
import functools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.embedding.embed import Matrix
from retrieval.errors import IndexDown, RetrievalError
from retrieval.knowledge import Backend, EmbedderOptions

# Providers of embeddings as litellm prefixes their models, without those that are also names on a model hub.
_PROVIDERS = frozenset((
    "azure", "azure_ai", "bedrock", "cohere", "fireworks_ai", "gemini", "hosted_vllm", "infinity", "jina_ai",
    "litellm_proxy", "lm_studio", "mistral", "nvidia_nim", "ollama", "openai", "openrouter", "sagemaker", "together_ai",
    "vertex_ai", "voyage", "watsonx", "xinference",
))  # fmt: skip
_FIRST_PAUSE_S = 0.5  # before the first retry; doubled before each further one
_LONGEST_PAUSE_S = 20.0
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_MAX_TOKENS = 8192  # what current embedding models read at least; a longer text is the provider's to refuse
_SHOWN_CHARS = 300  # of what a provider says


def is_remote(model: str, backend: Backend) -> bool:
    """Whether the model is to be asked of a provider."""
    if backend != "auto":
        return backend == "remote"
    provider, slash, _ = model.partition("/")
    return bool(slash) and provider in _PROVIDERS and not Path(model).expanduser().is_dir()


class RemoteEmbedder:
    """A provider's model. Lengths of texts are counted with the default embedder's tokenizer, which is near enough."""

    def __init__(
        self, model: str, options: EmbedderOptions, *, tokenizer_file: Path, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Asks the provider for one vector, to learn its length. Raises IndexDown, RetrievalError."""
        self.name, self.max_tokens = model, _MAX_TOKENS
        self.document_prompt = options.document_prompt or ""
        self.tokenizer_file = tokenizer_file
        self._query_prompt = options.query_prompt or ""
        self._options = options
        self._sleep = sleep
        self.dimension = 0
        self.dimension = self._patiently(["dimension"]).shape[1]

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        """Raises IndexDown where the provider cannot be asked now, RetrievalError where it refuses."""
        return self._embed([self._query_prompt + text for text in texts], self._once)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """As `embed_query`; what may pass is tried again."""
        return self._embed([self.document_prompt + text for text in texts], self._patiently)

    def _embed(self, texts: Sequence[str], call: Callable[[Sequence[str]], Matrix]) -> Matrix:
        size = self._options.batch_texts
        parts = [call(texts[start : start + size]) for start in range(0, len(texts), size)]
        return np.vstack(parts) if parts else np.empty((0, self.dimension), np.float32)

    def _patiently(self, texts: Sequence[str]) -> Matrix:
        pause_s = _FIRST_PAUSE_S
        for _ in range(self._options.retries):
            try:
                return self._once(texts)
            except IndexDown:
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return self._once(texts)

    def _once(self, texts: Sequence[str]) -> Matrix:
        options = self._options
        asked: dict[str, Any] = {}
        if options.dimensions:  # litellm would keep it from models whose names it does not know
            asked |= {"dimensions": options.dimensions, "allowed_openai_params": ["dimensions"]}
        if options.api_base:
            # With no key litellm takes one from the environment: not to be sent to an address configured here.
            asked |= {"api_base": options.api_base, "api_key": options.api_key or "none"}
        elif options.api_key:
            asked["api_key"] = options.api_key
        # A provider refuses an empty text, and a lone surrogate cannot be sent.
        sent = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        try:
            answer = _litellm().embedding(
                model=self.name, input=sent, timeout=options.timeout_s, max_retries=0, num_retries=0, **asked
            )
        except Exception as error:  # litellm's errors have no base of their own
            raise self._named(error) from error
        return self._checked(answer.data, len(texts))

    def _named(self, error: Exception) -> RetrievalError:
        said = " ".join(str(error).split())[:_SHOWN_CHARS]
        if self._options.api_key:
            said = said.replace(self._options.api_key, "***")
        status = getattr(error, "status_code", None)
        if status is None or status in _TRANSIENT or "Timeout" in type(error).__name__:
            return IndexDown(f"the embedder {self.name!r} cannot be asked now: {said}")
        return RetrievalError(f"the embedder {self.name!r} refused: {said}; look at embedder.model and its key")

    def _checked(self, rows: Sequence[Any], count: int) -> Matrix:
        """The vectors in the order of the texts, of unit length. Raises RetrievalError for any other answer."""
        try:
            ordered = sorted(rows, key=lambda row: int(_field(row, "index")))
            indexes = [int(_field(row, "index")) for row in ordered]
            vectors = np.asarray([_floats(_field(row, "embedding")) for row in ordered], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise RetrievalError(f"the embedder {self.name!r} answered without vectors") from error
        if indexes != list(range(count)):
            raise RetrievalError(f"the embedder {self.name!r} was sent {count} texts and answered with {len(indexes)}")
        wanted = self.dimension or self._options.dimensions or vectors.shape[-1]
        if vectors.ndim != 2 or vectors.shape[1] != wanted or not wanted:
            raise RetrievalError(
                f"the embedder {self.name!r} answered with vectors of length {vectors.shape[-1]}, not {wanted}: "
                "look at embedder.dimensions"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise RetrievalError(f"the embedder {self.name!r} answered with a vector that is zero or no number")
        return np.asarray(vectors / lengths, np.float32)


def _field(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _floats(value: Any) -> Any:
    return np.frombuffer(base64.b64decode(value), "<f4") if isinstance(value, str) else value


@functools.cache
def _litellm() -> Any:
    """Import litellm and tell it to fetch nothing, print nothing, report nothing."""
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        os.environ[name] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # or it loads any .env file in sight into our environment
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    vars(litellm)["DEFAULT_MAX_RETRIES"] = 0  # it takes `max_retries=0` for no wish at all
    litellm.callbacks, litellm.success_callback, litellm.failure_callback = [], [], []
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # its warnings quote texts
    for name in ("openai", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)  # OPENAI_LOG=debug would write bodies, headers and addresses
    return litellm
