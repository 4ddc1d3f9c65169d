"""The settings' sections, as frozen types with bounds for each value; `default.yaml` describes each key.

A bound's description is the message about a value out of bounds; for a text, it does not quote the value.
"""

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

_LARGEST = sys.float_info.max  # no infinity
_OFF = "must be 0 (off) or more"

Count = Annotated[int, Meta(ge=1, description="must be at least 1")]
OptionalCount = Annotated[int, Meta(ge=0, description=_OFF)]
OptionalNumber = Annotated[float, Meta(ge=0, le=_LARGEST, description=_OFF)]
Seconds = Annotated[float, Meta(gt=0, le=_LARGEST, description="must be a positive number of seconds")]
PositiveNumber = Annotated[float, Meta(gt=0, le=_LARGEST, description="must be a number above 0")]
Share = Annotated[float, Meta(ge=0, le=1, description="must be between 0 and 1")]
Port = Annotated[int, Meta(ge=0, le=65535, description="must be a port from 0 to 65535")]
Dollars = Annotated[
    float, Meta(gt=0, le=1_000_000, description="must be a number of dollars above 0 and at most a million")
]
Duration = Annotated[
    str, Meta(pattern=r"^([1-9][0-9]{0,5}[smhd])?\Z", description="must be a time such as 30s, 15m, 1h or 7d")
]
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
Folder = Annotated[str, Meta(min_length=1, description="must name a folder")]
DatabaseUrl = Annotated[
    str,
    Meta(
        pattern=r"^(postgres(ql(\+psycopg)?)?://|\Z)",
        description="must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or empty for SQLite in the data folder",
    ),
]
# Languages in `retrieval.lexical.terms`, and `auto` to detect them.
Language = Literal[
    "auto", "ar", "az", "bn", "ca", "da", "de", "el", "en", "es", "eu", "fi", "fr", "he", "hu", "hy", "id", "it", "ja",
    "kk", "ko", "ne", "nl", "no", "none", "pt", "ro", "ru", "sl", "sv", "ta", "tg", "th", "tr", "zh",
]  # fmt: skip


def seconds_of(duration: str) -> float:
    """A duration's length; 0.0 for none."""
    return float(int(duration[:-1]) * _SECONDS[duration[-1]]) if duration else 0.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str
    port: Port
    workers: Count
    max_body_mb: Count
    max_upload_mb: Count
    cors_origins: tuple[str, ...]
    receive_timeout_s: Seconds
    keepalive_s: Seconds
    send_timeout_s: Seconds
    hang_s: Seconds
    drain_s: OptionalNumber
    shutdown_s: Seconds
    log_level: Literal["debug", "info", "warning", "error"]
    sync_every: Duration

    @property
    def max_body_bytes(self) -> int:
        return self.max_body_mb * 2**20


@dataclass(frozen=True, slots=True)
class AuthSettings:
    open: bool
    required: bool
    pass_client_key: bool


@dataclass(frozen=True, slots=True)
class Model:
    """One row of `models`. None: not set; the value follows from name and environment."""

    model: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    lane: Literal["auto", "relay", "translated", "echo"] = "auto"
    position: Literal["lead", "merge", "tail"] | None = None
    window_tokens: Count | None = None
    dialects: tuple[Literal["chat", "responses", "messages"], ...] = ()
    tools: Literal["native", "text", "none"] | None = None


@dataclass(frozen=True, slots=True)
class ActionsApi:
    """One row of `actions`: an API and its OpenAPI document, or an MCP server. None: not set."""

    spec: str | None = None
    mcp: str | tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    trust_hints: bool = False
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
    writes: Literal["refuse", "confirm", "auto"] = "refuse"
    reads: tuple[str, ...] | None = None
    confirm: tuple[str, ...] | None = None
    auto: tuple[str, ...] | None = None
    four_eyes: tuple[str, ...] | None = None
    idempotency_header: str | None = None
    allowed: Mapping[str, tuple[str, ...]] | None = None
    calls_per_hour: Mapping[str, Count] | None = None


@dataclass(frozen=True, slots=True)
class TableSource:
    """One row of `tables`: a database, or files, whose tables are asked in SQL. None: not set."""

    url: str | None = None
    url_env: str | None = None
    files: tuple[str, ...] | None = None
    tables: tuple[str, ...] | None = None
    hide: tuple[str, ...] | None = None
    rows: Mapping[str, str] | None = None
    description: str | None = None
    samples: bool = False
    offer: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """One source of a collection in `sources`. None: not set."""

    folder: str | None = None
    git: str | None = None
    web: tuple[str, ...] | None = None
    sitemap: str | None = None
    bucket: str | None = None
    options: Mapping[str, str | bool] | None = None
    pages: Count = 1_000
    per_second: PositiveNumber = 1.0
    branch: str | None = None
    paths: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    user_env: str | None = None
    secret_env: str | None = None
    name: str | None = None
    exclude: tuple[str, ...] | None = None
    every: Duration | None = None
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ActionCallsSettings:
    k: Count
    rounds: Count
    calls: Count
    call_s: Seconds
    total_s: Seconds
    keepalive_s: Seconds
    result_chars: Count
    result_tokens: Count
    result_max_mb: Count
    total_max_mb: Count
    spec_hosts: tuple[str, ...]
    search_documents: bool
    confirm_s: Seconds
    again_s: Seconds
    log_content: bool


# When a chat is offered a tool: "auto" leaves it to the tool, which looks at the question.
ToolOffer = Literal["auto", "always"]


@dataclass(frozen=True, slots=True)
class TableQueriesSettings:
    card_tokens: Count
    max_rows: Count
    max_seconds: Seconds
    memory_mb: Count
    result_max_mb: Count
    retries: OptionalCount
    max_cost: OptionalNumber


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    connect_timeout_s: Seconds
    first_byte_timeout_s: Seconds
    idle_timeout_s: Seconds
    keepalive_s: Seconds
    max_connections: Count
    relearn_after_s: Seconds
    paths: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    enabled: bool
    collections: tuple[str, ...]
    mode: Literal["auto", "hybrid", "sequential", "whole", "dense", "bm25"]
    lexical: Literal["bm25", "okapi"]
    rewrite: Literal["local", "llm", "off"]
    rewrite_model: str
    rewrite_deadline_s: Seconds
    rewrite_prompt: str
    candidates: Count
    rrf_k: Count
    min_relevance: Share
    k: Count
    rerank_model: str
    rerank_candidates: Count
    rerank_deadline_s: Seconds
    recency_half_life_days: OptionalNumber
    merge_neighbours: bool
    neighbours: OptionalCount
    whole_document_tokens: OptionalCount
    skip_housekeeping: bool
    utility_requests: str
    deadline_s: Seconds
    require_context: bool
    start_s: Seconds
    hang_s: Seconds


@dataclass(frozen=True, slots=True)
class InjectSettings:
    position: Literal["lead", "merge", "tail"]
    template: str
    budget_tokens: Count
    window_share: Share
    augment_count: bool
    order: Literal["best_first", "best_first_and_last"]


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    model: str
    backend: Literal["auto", "onnx", "torch", "remote"]
    threads: Count | None
    precision: Literal["auto", "fp32", "int8", "bf16"]
    query_prompt: str | None
    document_prompt: str | None
    api_base: str
    api_key_env: str
    dimensions: OptionalCount
    batch_texts: Count
    timeout_s: Seconds
    retries: OptionalCount


_AttributeName = Annotated[
    str, Meta(pattern=r"^(?!(?i:source|title|format|modified_at|groups)\Z)[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
]


class RecordFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which fields of JSON records are what, by name or path ("fields.summary"). "": none."""

    text: tuple[str, ...]
    title: str = ""
    id: str = ""  # with it, each record is a document of its own
    url: str = ""
    date: str = ""
    attributes: tuple[str, ...] = ()
    records: str = ""  # path of the list of records; "": the whole file, or each line


class IngestRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is so of files by name or end of path, as in `exclude`."""

    path: str
    attributes: Mapping[_AttributeName, str | int | float | bool | tuple[str, ...]] = msgspec.field(
        default_factory=dict
    )
    fields: RecordFields | None = None


@dataclass(frozen=True, slots=True)
class IngestSettings:
    chunking: Literal["auto", "structure", "recursive", "fixed"]
    chunk_tokens: Count
    overlap_tokens: OptionalCount
    rules: tuple[IngestRule, ...]
    secrets: Literal["warn", "skip", "mask"]
    max_file_mb: Count
    max_unpacked_mb: Count
    max_read_s: Seconds
    max_read_mb: Count
    max_chunks: Count
    follow_links: bool
    language: Language
    languages: Mapping[str, Language]
    context: tuple[Literal["context", "keywords", "questions"], ...]
    context_model: str
    context_prompts: str
    context_tokens: Count
    context_concurrency: Count


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    url: DatabaseUrl


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    url: tuple[str, ...]
    api_key_env: str
    ca_file: str
    collection: str
    timeout_s: Seconds
    shards: Count
    replicas: Count
    quantisation: Literal["none", "int8", "binary"]


@dataclass(frozen=True, slots=True)
class RecordSettings:
    keep_hours: OptionalNumber
    max_mb: Count


@dataclass(frozen=True, slots=True)
class BenchSettings:
    shadow: Share
    compare: Literal["admin", "all", "off"]
    usd_per_day: Dollars
    tokens_per_day: Count
    at_once: Count
    keep_days: Count
    max_mb: Count


@dataclass(frozen=True, slots=True)
class UsageSettings:
    record: Literal["with_keys", "always", "never"]
    keep_days: Count


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections, and each dotted key's origin."""

    server: ServerSettings
    auth: AuthSettings
    models: Mapping[str, Model]
    actions: Mapping[str, ActionsApi]
    action_calls: ActionCallsSettings
    tools: Mapping[str, ToolOffer]
    tables: Mapping[str, TableSource]
    table_queries: TableQueriesSettings
    upstream: UpstreamSettings
    retrieval: RetrievalSettings
    inject: InjectSettings
    embedder: EmbedderSettings
    ingest: IngestSettings
    catalog: CatalogSettings
    qdrant: QdrantSettings
    receipts: RecordSettings
    history: RecordSettings
    bench: BenchSettings
    usage: UsageSettings
    sources: Mapping[str, tuple[DeclaredSource, ...]]
    data: Folder
    origins: Mapping[str, str]

    def as_flags(self) -> dict[str, Any]:
        """Every section as plain JSON values, from which `load` restores the same settings."""
        values = dataclasses.asdict(self)
        del values["origins"]
        return values
