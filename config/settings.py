"""Settings from `default.yaml` < file < environment < flags, as frozen typed sections.

Defaults are only in `default.yaml`, types and bounds only in `config.sections`. The error for an unknown key names the
nearest known one, that for a wrong value what was expected. Each value's origin is stored for `ragway config`.
"""

import dataclasses
import difflib
import ipaddress
import os
import re
import shlex
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from config.sections import ActionsApi, DeclaredSource, Folder, Model, Settings, TableSource, ToolOffer

DEFAULTS = Path(__file__).with_name("default.yaml")
PROMPTS = Path(__file__).with_name("prompts")
UTILITY_REQUESTS = Path(__file__).with_name("utility_requests.yaml")
SMALL_TALK = Path(__file__).with_name("small_talk.yaml")
PREFIX = "RAGWAY_"
# Not settings: the keys that `ragway mcp` and `ragway bench` use as clients, and the master key for sealed
# credentials.
KEY, BENCH_KEY, MASTER_KEY = "RAGWAY_KEY", "RAGWAY_BENCH_KEY", "RAGWAY_MASTER_KEY"


Tree = dict[str, Any]
API_NAME = re.compile(r"(?!off\Z)[a-z0-9][a-z0-9_-]{0,63}")  # `x-rag-actions: off` names no set
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_MOST_ALWAYS = 20  # a set's operations that every chat with it is offered
_Row = TypeVar("_Row")
_HINTS: Mapping[str, Any] = typing.get_type_hints(Settings, include_extras=True)
_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    name: typing.get_type_hints(hint, include_extras=True)
    for name, hint in _HINTS.items()
    if dataclasses.is_dataclass(hint)
}
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class SettingsError(Exception):
    """An invalid setting; the text names it, its origin and the expected value."""


def load(
    *, file: Path | None = None, environ: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None
) -> Settings:
    """The effective settings.

    file: a YAML file, or None. environ: where RAGWAY_SECTION__KEY is looked up.
    flags: dotted key -> value, from the command line; None: not given.
    Raises SettingsError.
    """
    values: Tree = {}
    origins: dict[str, str] = {}
    # 2 ms by libyaml, 17 ms by `_Loader`, whose errors only a person's file needs
    _merge(values, yaml.load(DEFAULTS.read_bytes(), yaml.CSafeLoader), origins, "default")
    if file is not None:
        _merge(values, _read(file), origins, str(file))
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX) and variable not in (KEY, BENCH_KEY, MASTER_KEY):
            key = variable.removeprefix(PREFIX).lower().replace("__", ".")
            _merge(values, _nested(key, _read_variable(text, _hint_of(key), variable)), origins, variable)
    for key, value in (flags or {}).items():
        if value is not None:
            _merge(values, _nested(key, value), origins, "command line")
    return _build(values, origins, file)


class _Loader(yaml.SafeLoader):
    """Refuses a duplicate key: YAML forbids it, but PyYAML silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # a date like 2024-13-45: PyYAML does not say where
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from error


def _read(file: Path) -> Tree:
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        raise SettingsError(f"{file}, line {line}, column {column}: not valid YAML: not in UTF-8") from error
    content = _parsed(text, str(file))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{file} must hold sections (server:, models:, …), not a {type(content).__name__}")
    return content


def _parsed(text: str, where: str) -> Any:
    """Parse YAML. Raises SettingsError with line and column. where: the text's origin."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise SettingsError(f"{where}: not valid YAML: nested too deeply") from error
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position), error.position - text.rfind("\n", 0, error.position) - 1
        problem = f"an invalid character, {error.character:#06x}"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        problem = " ".join(said for said in (error.context, error.problem) if said)
    raise SettingsError(f"{where}, line {line + 1}, column {column + 1}: not valid YAML: {problem}")


def _read_variable(text: str, hint: Any, variable: str) -> Any:
    """Text stays text, even if YAML would read a number or a bool (2024, off, 1e3); also in a list without brackets."""
    hint = _kind(hint)[0]
    listed = typing.get_origin(hint) is tuple and not text.lstrip().startswith("[")
    if not text or listed or hint is str or typing.get_origin(hint) is Literal:
        return text
    return _parsed(text, variable)


def _nested(key: str, value: Any) -> Tree:
    section, _, rest = key.partition(".")
    return {section: {rest: value}} if rest else {section: value}


def _merge(values: Tree, new: Tree, origins: dict[str, str], origin: str) -> None:
    """Add values by dotted key. Raises SettingsError for an unknown key."""
    for section, value in new.items():
        if section not in _HINTS or section == "origins":
            known = _HINTS.keys() - {"origins"}
            raise SettingsError(f"unknown setting {section!r} ({origin}){_nearest(section, known)}")
        if section not in _SECTIONS:
            values[section], origins[section] = value, origin
            continue
        if value is not None and not isinstance(value, dict):
            raise SettingsError(f"{section} ({origin}) must be a section with keys, got {value!r}")
        fields = _SECTIONS[section]
        for key, entry in (value or {}).items():  # None: all keys are commented out
            if key not in fields:
                raise SettingsError(f"unknown setting '{section}.{key}' ({origin}){_nearest(key, fields, section)}")
            values[f"{section}.{key}"], origins[f"{section}.{key}"] = entry, origin


def _nearest(name: object, known: typing.Iterable[str], section: str = "") -> str:
    close = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    if not close:
        return "; known: " + ", ".join(sorted(known))
    return f"; did you mean '{section + '.' if section else ''}{close[0]}'?"


def _hint_of(key: str) -> Any:
    section, _, name = key.partition(".")
    return _SECTIONS[section].get(name) if section in _SECTIONS else _HINTS.get(section)


def _build(values: Tree, origins: Mapping[str, str], file: Path | None) -> Settings:
    at = {key: f"{key} ({origin})" for key, origin in origins.items()}

    def folder(section: str) -> Path:
        """Where a section's relative paths begin."""
        return file.parent if file is not None and origins[section] == str(file) else Path()

    settings = Settings(
        **{
            section: _HINTS[section](
                **{
                    name: _typed(values[f"{section}.{name}"], hint, at[f"{section}.{name}"])
                    for name, hint in hints.items()
                }
            )
            for section, hints in _SECTIONS.items()
        },
        models=_models(values["models"], at["models"]),
        actions=_apis(values["actions"], at["actions"], folder("actions")),
        tables=_tables(values["tables"], at["tables"], folder("tables")),
        sources=_sources(values["sources"], at["sources"], folder("sources")),
        tools=_tools(values["tools"], at["tools"]),
        data=_typed(values["data"], Folder, at["data"]),
        origins=dict(origins),
    )
    ingest = settings.ingest
    for key in ("overlap_tokens", "context_tokens"):
        if getattr(ingest, key) * 2 > ingest.chunk_tokens:
            raise SettingsError(
                f"ingest.{key} ({getattr(ingest, key)}) must be at most half of ingest.chunk_tokens "
                f"({ingest.chunk_tokens})"
            )
    if ingest.context and not ingest.context_model:
        raise SettingsError(f"{at['ingest.context']} needs a model: name one of `models` in ingest.context_model")
    return settings


def _models(value: Any, where: str) -> Mapping[str, Model]:
    rows = {}
    for name, row in _rows(value, where, Model):
        if "*" in name[:-1]:
            raise SettingsError(f"{where}: a name is text with at most a * at the end, got {name!r}")
        check_address(row.api_base, f"models.{name}.api_base")
        rows[name] = row
    return rows


def _check_offer(name: str, row: ActionsApi) -> None:
    if len(row.always or ()) > _MOST_ALWAYS:
        raise SettingsError(
            f"actions.{name}.always names at most {_MOST_ALWAYS} operations, got {len(row.always or ())}"
        )
    if row.private and row.public:
        raise SettingsError(f"actions.{name} is private and public: leave one of the two out")


def _check_writes(name: str, row: ActionsApi) -> None:
    for key in ("confirm", "auto", "four_eyes", "idempotency_header"):
        if row.writes == "refuse" and getattr(row, key):
            raise SettingsError(f"actions.{name}.{key} is set: set actions.{name}.writes to confirm or auto, too")
    for key in ("confirm", "four_eyes"):
        for other in ("auto", "reads"):
            if both := set(getattr(row, key) or ()) & set(getattr(row, other) or ()):
                raise SettingsError(f"actions.{name}: {min(both)} is in {key} and in {other}: leave one of the two out")
    if row.idempotency_header is not None and not _HEADER_NAME.fullmatch(row.idempotency_header):
        raise SettingsError(f"actions.{name}.idempotency_header must be a header name, got {row.idempotency_header!r}")
    for argument, values in (row.allowed or {}).items():
        if not values:
            raise SettingsError(f"actions.{name}.allowed.{argument} names no value: then no call could be right")


_NOT_OF_MCP = ("spec", "base_url", "servers", "idempotency_header")
_NOT_OF_COMMAND = ("networks", "secret_env", "user_env", "secret_per_key")


def _mcp(name: str, row: ActionsApi) -> str | tuple[str, ...] | None:
    """An MCP server's address, or its command as words. Raises SettingsError."""
    where = f"actions.{name}"
    if row.mcp is None:
        for key in ("env", "trust_hints"):
            if getattr(row, key):
                raise SettingsError(f"{where}.{key} is set: it is for a row with {where}.mcp")
        return None
    if wrong := next((key for key in _NOT_OF_MCP if getattr(row, key)), None):
        raise SettingsError(f"{where} has mcp and {wrong}: leave {wrong} out")
    if isinstance(row.mcp, str) and row.mcp.startswith(("http://", "https://")):
        check_address(row.mcp, f"{where}.mcp")
        if row.env:
            raise SettingsError(f"{where}.env is for a server that is a command: over HTTP, use auth and secret_env")
        return row.mcp
    try:
        words = tuple(shlex.split(row.mcp)) if isinstance(row.mcp, str) else row.mcp
    except ValueError as error:
        raise SettingsError(f"{where}.mcp is neither a URL nor a command ({error})") from error
    if not words or not words[0] or any("\0" in word for word in words):
        raise SettingsError(f"{where}.mcp must be a URL with http:// or https://, or a command; got {row.mcp!r}")
    if row.auth != "none" or (wrong := next((key for key in _NOT_OF_COMMAND if getattr(row, key)), None)):
        wrong = "auth" if row.auth != "none" else wrong
        raise SettingsError(
            f"{where}.mcp is a command, which gets no {wrong}: name the variables it needs in {where}.env"
        )
    return words


def _apis(value: Any, where: str, folder: Path) -> Mapping[str, ActionsApi]:
    rows = {}
    for name, row in _rows(value, where, ActionsApi):
        if not API_NAME.fullmatch(name):
            raise SettingsError(
                f"{where}: a name has small letters, digits, - and _, at most 64, and is not off; got {name!r}"
            )
        servers = [("servers", one) for one in row.servers or ()]
        for key, address in (("base_url", row.base_url), ("token_url", row.token_url), *servers):
            check_address(address, f"actions.{name}.{key}")
        _check_networks(row.networks, f"actions.{name}")
        _check_offer(name, row)
        _check_writes(name, row)
        if row.auth == "api_key" and row.key_in == "header" and not _HEADER_NAME.fullmatch(row.key_name):
            raise SettingsError(f"actions.{name}.key_name must be a header name, got {row.key_name!r}")
        needed = {"basic": ("user_env", "secret_env"), "digest": ("user_env", "secret_env"), "none": ()}
        needed |= {"oauth2": ("user_env", "secret_env", "token_url")}
        for key in ("secret_per_key", "secret_env", "user_env"):
            if row.auth == "none" and getattr(row, key):
                raise SettingsError(f"actions.{name}.{key} is set: set actions.{name}.auth, too")
        for key in needed.get(row.auth, ("secret_env",)):
            if not getattr(row, key) and not (row.secret_per_key and key.endswith("_env")):
                raise SettingsError(f"actions.{name}.auth is {row.auth}: set actions.{name}.{key}, too")
        spec = _source(row.spec, f"actions.{name}.spec", folder)
        rows[name] = dataclasses.replace(row, spec=spec, mcp=_mcp(name, row))
    return rows


# Files whose tables are asked in SQL, by ending.
TABLE_FILES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json", ".xlsx", ".xlsm", ".xls", ".ods")
_KEY_VALUES = ("key.team", "key.id", "key.name")  # in `tables.NAME.rows`
_SECRET_PARAMETER = re.compile(r"[?&](?!sslkey=)[^=&]*(pass|pwd|secret|token|key)[^=&]*=", re.IGNORECASE)


def _tables(value: Any, where: str, folder: Path) -> Mapping[str, TableSource]:
    rows = {}
    for name, row in _rows(value, where, TableSource):
        check_database_name(name, where)
        key = f"tables.{name}"
        given = [place for place in ("url", "url_env", "files") if getattr(row, place)]
        if len(given) > 1:
            raise SettingsError(f"{key} has {given[0]} and {given[1]}: leave one of the two out")
        for one in row.hide or ():
            if not all(one.rpartition(".")[::2]):
                raise SettingsError(f"{key}.hide names columns as TABLE.COLUMN or *.COLUMN, got {one!r}")
        for table, predicate in (row.rows or {}).items():
            _check_predicate(predicate, f"{key}.rows.{table}")
        rows[name] = dataclasses.replace(
            row,
            url=None if row.url is None else database_url(row.url, f"{key}.url", folder),
            files=None if row.files is None else table_files(row.files, f"{key}.files", folder),
            description=None if row.description is None else str((folder / row.description).absolute()),
        )
    return rows


def check_database_name(name: str, where: str) -> None:
    """Raises SettingsError."""
    if not API_NAME.fullmatch(name):
        raise SettingsError(
            f"{where}: a name has small letters, digits, - and _, at most 64, and is not off; got {name!r}"
        )


def _check_predicate(predicate: str, where: str) -> None:
    """Check the values of the key in a condition on rows. Raises SettingsError."""
    if not predicate.strip():
        raise SettingsError(f"{where} is empty: write a condition such as team = {{key.team}}")
    for found in re.finditer(r"\{([^{}]*)\}?", predicate):
        if found[1] not in _KEY_VALUES or not found[0].endswith("}"):
            known = ", ".join(f"{{{one}}}" for one in _KEY_VALUES)
            raise SettingsError(f"{where}: {found[0]} is not known; known: {known}")
        if predicate[: found.start()].count("'") % 2:
            raise SettingsError(f"{where}: write {found[0]} without quotes; the gateway writes the value as a literal")


def database_url(url: str, where: str, folder: Path) -> str:
    """A database's URL without a password, that of a file with its absolute path. Raises SettingsError."""
    scheme, sign, rest = url.partition("://")
    if not sign or not re.fullmatch(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?", scheme):
        raise SettingsError(
            f"{where} must be a database URL, such as postgresql://USER@HOST/DATABASE or sqlite:///shop.db"
        )
    if scheme in ("sqlite", "duckdb"):
        if not rest.startswith("/") or not rest[1:] or "?" in rest or rest == "/:memory:":
            raise SettingsError(f"{where} must name a file: {scheme}:///shop.db, or {scheme}:////data/shop.db")
        return f"{scheme}:///{(folder / rest[1:]).absolute()}"
    if ":" in rest.rpartition("@")[0] or _SECRET_PARAMETER.search(rest):
        raise SettingsError(
            f"{where} must not hold a password: put the URL into an environment variable, and name the variable in "
            "tables.NAME.url_env"
        )
    return f"postgresql://{rest}" if scheme == "postgres" else url


def table_files(files: typing.Iterable[str], where: str, folder: Path) -> tuple[str, ...]:
    """Absolute paths of files with tables. Raises SettingsError."""
    paths = []
    for one in files:
        if not one.lower().endswith(TABLE_FILES) or "://" in one:
            raise SettingsError(f"{where} must be files with one of the endings {', '.join(TABLE_FILES)}; got {one!r}")
        paths.append(str((folder / Path(one).expanduser()).absolute()))
    return tuple(paths)


def _sources(value: Any, where: str, folder: Path) -> Mapping[str, tuple[DeclaredSource, ...]]:
    if value is not None and not isinstance(value, dict):
        raise SettingsError(f"{where} must map collections to lists of sources, got {value!r}")
    found = {}
    for collection, listed in (value or {}).items():
        if not isinstance(listed, list) or not isinstance(collection, str):
            raise SettingsError(f"{where}: {collection} must have a list of sources, got {listed!r}")
        rows = []
        for name, row in _rows({f"{collection}[{n}]": row for n, row in enumerate(listed)}, where, DeclaredSource):
            rows.append(_declared(row, f"sources.{name}", folder))
        names = [row.name for row in rows]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SettingsError(f"sources.{collection} has two sources {twice!r}: give one of the two another `name`")
        found[collection] = tuple(rows)
    return found


def _tools(value: Any, where: str) -> Mapping[str, ToolOffer]:
    """Name of each tool -> when it is offered; a list is short for auto."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    named = dict.fromkeys(value, "auto") if isinstance(value, list) and all(map(_is_text, value)) else value or {}
    if not isinstance(named, dict) or not all(map(_is_text, named)):
        raise SettingsError(f"{where} must be a list of names, or map names to auto or always; got {value!r}")
    return {name: _typed(offer, ToolOffer, f"tools.{name}") for name, offer in named.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


_SOURCE_OPTIONS = {  # kind -> its own options
    "folder": ("watch",),
    "git": ("branch", "paths", "networks", "user_env", "secret_env"),
    "web": ("networks",),
    "sitemap": ("networks",),
    "bucket": ("options",),
}


_SECRET_OPTION = re.compile(r"(^|_)(key|secret|token|password|passphrase)$|connection_string")


def _declared(row: DeclaredSource, where: str, folder: Path) -> DeclaredSource:
    """A source with its place made absolute, and a name. Raises SettingsError."""
    kinds = [kind for kind in _SOURCE_OPTIONS if getattr(row, kind) is not None]
    if len(kinds) != 1:
        raise SettingsError(f"{where} must have exactly one of {', '.join(_SOURCE_OPTIONS)}")
    kind = kinds[0]
    given = {option for options in _SOURCE_OPTIONS.values() for option in options if getattr(row, option)}
    if wrong := sorted(given - {*_SOURCE_OPTIONS[kind]}):
        raise SettingsError(f"{where}.{wrong[0]} is not an option of a source with `{kind}`")
    _check_networks(row.networks, where)
    if kind in ("web", "sitemap"):
        addresses = (row.sitemap or "",) if row.web is None else row.web
        for address in addresses:
            check_address(address, f"{where}.{kind}")
        if not addresses:
            raise SettingsError(f"{where}.web names no page")
        return dataclasses.replace(row, name=row.name or addresses[0])
    place: str = getattr(row, kind)
    if row.bucket is not None:
        _check_bucket(row.bucket, row.options or {}, where)
        return dataclasses.replace(row, name=row.name or place)
    if kind == "git" and place.startswith(("http://", "https://")):
        check_address(place, f"{where}.git")
    elif kind == "git" and ("://" in place.removeprefix("file://") or re.match(r"[\w.-]+@[\w.-]+:", place)):
        raise SettingsError(
            f"{where}.git must be a URL with https:// or http://, or a repository on disk, got {place!r}: "
            "ssh and git:// are not called"
        )
    else:
        place = str((folder / Path(place.removeprefix("file://")).expanduser()).absolute())
    changed: dict[str, Any] = {kind: place, "name": row.name or place}
    return dataclasses.replace(row, **changed)


def _check_bucket(place: str, options: Mapping[str, str | bool], where: str) -> None:
    if not re.match(r"[a-z][a-z0-9+.-]*://.", place) or place.startswith(("http://", "https://")):
        raise SettingsError(f"{where}.bucket must be an address such as s3://bucket/folder; for web pages, use `web`")
    secret = next(
        (name for name in options if _SECRET_OPTION.search(name)), "" if "@" not in place.split("/")[2] else "a user"
    )
    if secret:
        raise SettingsError(
            f"{where} must not hold credentials ({secret}): the library finds them in the environment or in its own "
            "files, such as AWS_ACCESS_KEY_ID or ~/.aws"
        )


def _check_networks(networks: tuple[str, ...] | None, where: str) -> None:
    for text in networks or ():
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise SettingsError(f"{where}.networks: {error}; write 10.0.0.0/8, or so") from error


def _source(spec: str | None, where: str, folder: Path) -> str | None:
    """The URL, or the file's absolute path. Raises SettingsError."""
    if spec is None:
        return None
    if spec.startswith(("http://", "https://")):
        check_address(spec, where)
        return spec
    if not spec or "://" in spec:
        raise SettingsError(f"{where} must be a file, or a URL with http:// or https://, got {spec!r}")
    return str((folder / spec).absolute())


def _rows(value: Any, where: str, kind: type[_Row]) -> Iterator[tuple[str, _Row]]:
    """Rows of a table by name, each read by the type hints of `kind`. Raises SettingsError."""
    if value is None:
        return
    section = where.partition(" ")[0]
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must map names to rows, got {value!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    for name, row in value.items():
        if not isinstance(name, str) or not name:
            raise SettingsError(f"{where}: a name is text, got {name!r}")
        if row is not None and not isinstance(row, dict):
            keys = ", ".join(hints)
            raise SettingsError(f"{where}: {name} must hold keys ({keys}), got a {type(row).__name__}")
        for key in row or {}:
            if key not in hints:
                known = _nearest(key, hints, f"{section}.{name}")
                raise SettingsError(f"unknown setting '{section}.{name}.{key}'{known}")
        yield name, kind(**{k: _typed(v, hints[k], f"{section}.{name}.{k}") for k, v in (row or {}).items()})


def _typed(value: Any, hint: Any, where: str) -> Any:
    """A setting's value, read by its type. Raises SettingsError."""
    if isinstance(value, str) and typing.get_origin(hint) is tuple:
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif value is False and "off" in typing.get_args(hint):
        value = "off"  # YAML reads a bare off as false
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        kind, *bounds = _kind(hint)
        if bounds and ", got " not in str(error):  # the right type
            quoted = "" if isinstance(value, str) else f", got {value!r}"
            raise SettingsError(f"{where} {bounds[0].description}{quoted}") from error
        raise SettingsError(f"{where} must {_expected(kind, value)}") from error


def _kind(hint: Any) -> tuple[Any, ...]:
    """A hint's type, without None, then its bounds."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = typing.get_args(hint)[0]
    return typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)


def _expected(hint: Any, value: Any) -> str:
    """What a value must be, and the value; without a map's values, because a fixed argument may be secret."""
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind is Literal:
        return f"be one of {', '.join(parts)}; got {value!r}"
    if kind is tuple:
        if isinstance(parts[0], type) and issubclass(parts[0], msgspec.Struct):
            return f"be a list of objects with {', '.join(parts[0].__struct_fields__)}; got {value!r}"
        listed = typing.get_args(parts[0])
        return f"be a list of {', '.join(listed)}; got {value!r}" if listed else f"be a list of texts, got {value!r}"
    if kind is None:
        return f"be {_WORDS[hint]}, got {value!r}"
    if not isinstance(value, dict):
        return f"map texts to texts, got a {type(value).__name__}"
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            return f"map texts to texts: write {'the value of ' if isinstance(name, str) else ''}{name!r} in quotes"
    return f"map texts to any of {', '.join(typing.get_args(parts[1]))}; got {value!r}"


def check_address(address: str | None, where: str) -> None:
    """Raise SettingsError for an address that cannot receive requests. The text never quotes a password or query."""
    if address is None:
        return
    shown = repr("…" + address.rpartition("@")[2] if "@" in address else address.partition("?")[0])
    if not address.startswith(("http://", "https://")):
        raise SettingsError(f"{where} must start with http:// or https://, got {shown}")
    if not (address.isascii() and address.isprintable()) or " " in address or "#" in address:
        raise SettingsError(f"{where} must be an address in ASCII without spaces and without a #, got {shown}")
    if "@" in re.split(r"[/?]", address.partition("://")[2], maxsplit=1)[0]:
        raise SettingsError(
            f"{where} must not hold a user or a password, got one for {shown}: put the key into an environment "
            "variable, and name the variable in api_key_env, or for actions in user_env and secret_env"
        )
    try:
        parts = urlsplit(address)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:  # for example an invalid port or an open bracket
        host = None
    if not host:
        raise SettingsError(f"{where} must name a host, and a port from 1 to 65535 or none, got {shown}")
