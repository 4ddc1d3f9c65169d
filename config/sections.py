"""The sections of the settings, as frozen types; `default.yaml` describes each key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str
    port: int
    workers: int
    max_body_mb: int
    max_upload_mb: int
    cors_origins: tuple[str, ...]
    receive_timeout_s: float
    keepalive_s: float
    send_timeout_s: float
    hang_s: float
    drain_s: float
    shutdown_s: float
    log_level: Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class AuthSettings:
    open: bool
    required: bool
    pass_client_key: bool


@dataclass(frozen=True, slots=True)
class Model:
    """One row of `models`. None: not set; the value follows from the name and the environment."""

    model: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    lane: Literal["auto", "relay", "translated", "echo"] = "auto"
    position: Literal["lead", "merge", "tail"] | None = None
    window_tokens: int | None = None
    dialects: tuple[str, ...] = ()
    tools: Literal["native", "json_schema", "text", "none"] | None = None


@dataclass(frozen=True, slots=True)
class ActionsApi:
    """One row of `actions`: an API and its OpenAPI document. None: not set."""

    spec: str | None = None
    base_url: str | None = None
    auth: Literal["none", "api_key", "basic", "bearer", "digest", "oauth2"] = "none"
    secret_env: str | None = None
    user_env: str | None = None
    key_in: Literal["header", "query", "cookie"] = "header"
    key_name: str = "X-API-Key"
    token_url: str | None = None
    scope: str | None = None
    fixed: Mapping[str, str] | None = None
    networks: tuple[str, ...] | None = None
    servers: tuple[str, ...] | None = None
    offer: bool = False
    always: tuple[str, ...] | None = None
    private: bool = False
    public: bool = False
    only: tuple[str, ...] | None = None
    never: tuple[str, ...] | None = None
    ask: tuple[str, ...] | None = None
    secret_per_key: bool = False


@dataclass(frozen=True, slots=True)
class ActionCallsSettings:
    k: int
    rounds: int
    calls: int
    call_s: float
    total_s: float
    keepalive_s: float
    result_chars: int
    result_tokens: int
    result_max_mb: int
    total_max_mb: int
    spec_hosts: tuple[str, ...]
    search_documents: bool


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    connect_timeout_s: float
    first_byte_timeout_s: float
    idle_timeout_s: float
    keepalive_s: float
    max_connections: int
    relearn_after_s: float
    paths: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    enabled: bool
    collections: tuple[str, ...]
    mode: Literal["auto", "hybrid", "sequential", "whole", "dense", "bm25"]
    lexical: Literal["bm25", "okapi"]
    rewrite: Literal["local", "llm", "off"]
    rewrite_model: str
    rewrite_deadline_s: float
    rewrite_prompt: str
    candidates: int
    rrf_k: int
    min_relevance: float
    k: int
    rerank_model: str
    rerank_candidates: int
    rerank_deadline_s: float
    recency_half_life_days: float
    merge_neighbours: bool
    neighbours: int
    whole_document_tokens: int
    skip_housekeeping: bool
    utility_requests: str
    deadline_s: float
    require_context: bool
    start_s: float
    hang_s: float


@dataclass(frozen=True, slots=True)
class InjectSettings:
    position: Literal["lead", "merge", "tail"]
    template: str
    budget_tokens: int
    window_share: float
    augment_count: bool
    order: Literal["best_first", "best_first_and_last"]


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    model: str
    backend: Literal["auto", "onnx", "torch", "remote"]
    threads: int
    precision: Literal["auto", "fp32", "int8", "bf16"]
    query_prompt: str | None
    document_prompt: str | None
    api_base: str
    api_key_env: str
    dimensions: int
    batch_texts: int
    timeout_s: float
    retries: int


@dataclass(frozen=True, slots=True)
class IngestSettings:
    chunking: Literal["auto", "structure", "recursive", "fixed"]
    chunk_tokens: int
    overlap_tokens: int
    neighbour_weight: float
    max_file_mb: int
    max_read_s: float
    max_read_mb: int
    max_chunks: int
    follow_links: bool
    language: str
    languages: Mapping[str, str]
    context: tuple[str, ...]
    context_model: str
    context_prompts: str
    context_tokens: int
    context_concurrency: int


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    url: str


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    url: tuple[str, ...]
    api_key_env: str
    ca_file: str
    collection: str
    timeout_s: float
    shards: int
    replicas: int
    quantisation: Literal["none", "int8", "binary"]


@dataclass(frozen=True, slots=True)
class ReceiptsSettings:
    keep_hours: float
    max_mb: int


@dataclass(frozen=True, slots=True)
class HistorySettings:
    keep_hours: float
    max_mb: int


@dataclass(frozen=True, slots=True)
class BenchSettings:
    shadow: float
    compare: Literal["admin", "all", "off"]
    usd_per_day: float
    tokens_per_day: int
    at_once: int
    keep_days: int
    max_mb: int


@dataclass(frozen=True, slots=True)
class UsageSettings:
    record: Literal["with_keys", "always", "never"]
    keep_days: int
