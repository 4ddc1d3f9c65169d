"""The error of the settings, and the check of an address."""

import re
from urllib.parse import urlsplit


class SettingsError(Exception):
    """An invalid setting; the text names the setting, the origin and the expected value."""


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
