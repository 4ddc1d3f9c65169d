"""Checks of setting values that a type cannot express."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

# The languages of `retrieval.lexical.language`, and `auto` for detection.
LANGUAGES = ("auto", *("ar az bn ca da de el en es eu fi fr he hu hy id it ja kk ko ne nl no none pt ro ru sl sv ta tg "
                       "th tr zh").split())  # fmt: skip
CONTEXTS = ("context", "keywords", "questions")


class SettingsError(Exception):
    """An invalid setting; the text names the setting, the origin and the expected value."""


def check_language(language: str, where: str) -> None:
    """Raise SettingsError for an unknown language."""
    if language not in LANGUAGES:
        raise SettingsError(f"{where} must be one of {', '.join(LANGUAGES)}; got {language!r}")


def check_context(kinds: Sequence[str], model: str, where: str) -> None:
    """Raise SettingsError for a kind of context without a prompt, or for any kind without a model."""
    for kind in kinds:
        if kind not in CONTEXTS:
            raise SettingsError(f"{where} may list {', '.join(CONTEXTS)}; got {kind!r}")
    if kinds and not model:
        raise SettingsError(f"{where} needs a model: name one of `models` in ingest.context_model")


def check_address(address: str | None, where: str) -> None:
    """Raise SettingsError for an address that cannot receive requests. The text never quotes a password or a query."""
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


def check_database(url: str, where: str) -> None:
    """Raise SettingsError for a URL that is neither empty nor a PostgreSQL address. The text never quotes the URL."""
    if url and not url.startswith(("postgresql://", "postgresql+psycopg://", "postgres://")):
        raise SettingsError(
            f"{where} must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or empty for SQLite in the data folder"
        )
