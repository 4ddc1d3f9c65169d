"""Texts to unit vectors from a provider's API, through litellm. Only this module and the gateway's translated lane use
it.

The first call imports litellm (seconds, 170 MB), in the index process and in the child process for ingest. litellm
makes no retries. A question is sent once, because a chat does not wait. Documents are sent again a few times, with
longer pauses. Number, length and values of returned vectors are checked before use.
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

# litellm's prefixes of embedding providers, without those that are also names on a model hub.
_PROVIDERS = frozenset((
    "azure", "azure_ai", "bedrock", "cohere", "fireworks_ai", "gemini", "hosted_vllm", "infinity", "jina_ai",
    "litellm_proxy", "lm_studio", "mistral", "nvidia_nim", "ollama", "openai", "openrouter", "sagemaker", "together_ai",
    "vertex_ai", "voyage", "watsonx", "xinference",
))  # fmt: skip
_FIRST_PAUSE_S = 0.5  # before the first retry; doubled before each further one
_LONGEST_PAUSE_S = 20.0
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_MAX_TOKENS = 8192  # current embedding models read at least 8192 tokens; providers refuse longer texts
_MESSAGE_CHARS = 300  # of a provider's error message


def is_remote(model: str, backend: Backend) -> bool:
    """Whether a provider runs the model."""
    if backend != "auto":
        return backend == "remote"
    provider, slash, _ = model.partition("/")
    return bool(slash) and provider in _PROVIDERS and not Path(model).expanduser().is_dir()


class RemoteEmbedder:
    """A provider's model. The default embedder's tokenizer counts its tokens, which is close enough."""

    def __init__(
        self, model: str, options: EmbedderOptions, *, tokenizer_file: Path, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Request one vector from the provider to learn its dimension. Raises IndexDown, RetrievalError."""
        self.name, self.max_tokens = model, _MAX_TOKENS
        self.document_prompt = options.document_prompt or ""
        self.tokenizer_file = tokenizer_file
        self._query_prompt = options.query_prompt or ""
        self._options = options
        self._sleep = sleep
        self.dimension = 0
        self.dimension = self._with_retries(["dimension"]).shape[1]

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        """Raises IndexDown if the provider is unavailable now, RetrievalError if it refuses the request."""
        return self._embed([self._query_prompt + text for text in texts], self._request)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """As `embed_query`, with retries after temporary errors."""
        return self._embed([self.document_prompt + text for text in texts], self._with_retries)

    def _embed(self, texts: Sequence[str], call: Callable[[Sequence[str]], Matrix]) -> Matrix:
        size = self._options.batch_texts
        parts = [call(texts[start : start + size]) for start in range(0, len(texts), size)]
        return np.vstack(parts) if parts else np.empty((0, self.dimension), np.float32)

    def _with_retries(self, texts: Sequence[str]) -> Matrix:
        pause_s = _FIRST_PAUSE_S
        for _ in range(self._options.retries):
            try:
                return self._request(texts)
            except IndexDown:
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return self._request(texts)

    def _request(self, texts: Sequence[str]) -> Matrix:
        options = self._options
        parameters: dict[str, Any] = {}
        if options.dimensions:  # litellm would drop `dimensions` for models with unknown names
            parameters |= {"dimensions": options.dimensions, "allowed_openai_params": ["dimensions"]}
        if options.api_base:
            # Without a key litellm takes one from the environment: never send that to an address configured here.
            parameters |= {"api_base": options.api_base, "api_key": options.api_key or "none"}
        elif options.api_key:
            parameters["api_key"] = options.api_key
        # Providers refuse empty texts, and a lone surrogate cannot be sent.
        inputs = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        try:
            answer = _litellm().embedding(
                model=self.name, input=inputs, timeout=options.timeout_s, max_retries=0, num_retries=0, **parameters
            )
        except Exception as error:  # litellm's errors have no base class of their own
            raise self._as_retrieval_error(error) from error
        return self._checked_vectors(answer.data, len(texts))

    def _as_retrieval_error(self, error: Exception) -> RetrievalError:
        message = " ".join(str(error).split())[:_MESSAGE_CHARS]
        if self._options.api_key:
            message = message.replace(self._options.api_key, "***")
        status = getattr(error, "status_code", None)
        if status is None or status in _TRANSIENT or "Timeout" in type(error).__name__:
            return IndexDown(f"the embedder {self.name!r} is unavailable now: {message}")
        return RetrievalError(
            f"the embedder {self.name!r} refused the request: {message}; check embedder.model and the API key"
        )

    def _checked_vectors(self, rows: Sequence[Any], count: int) -> Matrix:
        """Return vectors in text order, of unit length. Raises RetrievalError for an invalid answer."""
        try:
            ordered = sorted(rows, key=lambda row: int(_field(row, "index")))
            indexes = [int(_field(row, "index")) for row in ordered]
            vectors = np.asarray([_floats(_field(row, "embedding")) for row in ordered], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise RetrievalError(f"the embedder {self.name!r} answered without vectors") from error
        if indexes != list(range(count)):
            raise RetrievalError(f"the embedder {self.name!r} was sent {count} texts and answered with {len(indexes)}")
        dimension = self.dimension or self._options.dimensions or vectors.shape[-1]
        if vectors.ndim != 2 or vectors.shape[1] != dimension or not dimension:
            raise RetrievalError(
                f"the embedder {self.name!r} answered with vectors of length {vectors.shape[-1]}, not {dimension}: "
                "check embedder.dimensions"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise RetrievalError(f"the embedder {self.name!r} answered with a vector that is zero or not a number")
        return np.asarray(vectors / lengths, np.float32)


def _field(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _floats(value: Any) -> Any:
    return np.frombuffer(base64.b64decode(value), "<f4") if isinstance(value, str) else value


@functools.cache
def _litellm() -> Any:
    """Import litellm without network requests, output and telemetry."""
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        os.environ[name] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # otherwise litellm loads any nearby .env file into our environment
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    vars(litellm)["DEFAULT_MAX_RETRIES"] = 0  # litellm reads `max_retries=0` as "not set"
    litellm.callbacks, litellm.success_callback, litellm.failure_callback = [], [], []
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # litellm's warnings quote texts
    for name in ("openai", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)  # OPENAI_LOG=debug would log bodies, headers and addresses
    return litellm
