"""The properties of a new key: read and checked by the same rules for `ragway keys` and for the admin API."""

import re
import time
from collections.abc import Mapping
from typing import Any

from proxy.access.keys import Key
from proxy.access.limits import limits_of
from proxy.caller import Acts, BadAct, Names, Rights
from retrieval.records.attributes import checked_groups

_MOST_NAME_CHARS = 200
_MOST_ACTS = 200  # each call of an operation reads all
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}|[A-Za-z0-9._-]{0,63}\*")


class BadGrant(ValueError):
    """An invalid property of a new key; the message says which values are valid."""

    def __init__(self, what: str, param: str) -> None:
        super().__init__(what)
        self.param = param


def grant_of(fields: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of `SqlAccounts.create` from foreign JSON: name, and some of team, read, write, act, query, groups,
    models, admin, metrics, limits, and expires (90d).

    Raises BadGrant.
    """
    read, write, models, query = (_names(fields.get(of), of) for of in ("read", "write", "models", "query"))
    admin, metrics = (_yes(fields.get(of), of) for of in ("admin", "metrics"))
    lasts_s = duration_s(fields.get("expires"), "expires")
    act = acts_of(fields.get("act"))
    if not (read or write or models or query or admin or metrics or act.granted):
        raise BadGrant("such a key could do nothing: give it read, write, models, act, query, metrics or admin", "read")
    name, team = _text(fields.get("name"), "name", least=1), _text(fields.get("team", ""), "team")
    groups = _groups(fields.get("groups"))
    names = {"read": Names(read), "write": Names(write), "models": Names(models), "query": Names(query)}
    rights = Rights(**names, groups=groups, admin=admin, metrics=metrics, act=act)
    return {
        "name": name,
        "team": team,
        "rights": rights,
        "expires_s": None if lasts_s is None else time.time() + lasts_s,
        "limits": limits_of(changed_limits(fields.get("limits", {}))),
    }


def duration_s(value: object, param: str) -> float | None:
    """Seconds, of text like 90d, 24h or 30m; None where none is given. Raises BadGrant."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadGrant(f"{param} {value!r}: write a number with s, m, h, d or w behind it, e.g. 90d", param)
    return float(int(match[1]) * _UNITS_S[match[2]])


def acts_of(value: object) -> Acts:
    """The grants of calls. Raises BadGrant."""
    if not isinstance(value, list | tuple | None) or not all(isinstance(text, str) for text in value or ()):
        raise BadGrant("act must be a list of grants, as atlas:read", "act")
    if len(value or ()) > _MOST_ACTS:
        raise BadGrant(f"act must have at most {_MOST_ACTS} grants", "act")
    try:
        return Acts(tuple(value or ()))
    except BadAct as error:
        raise BadGrant(f"act {error}", "act") from error


def changed_limits(value: object) -> Mapping[str, object]:
    """Limits by name; None removes a limit. Raises BadGrant."""
    if not isinstance(value, Mapping):
        raise BadGrant("limits must be an object", "limits")
    try:
        limits_of(value)
    except ValueError as error:
        raise BadGrant(str(error), "limits") from error
    return value


def key_json(key: Key) -> dict[str, Any]:
    """A key as JSON, without the secret."""
    return {
        "id": key.id,
        "name": key.name,
        "team": key.team,
        **key.rights.as_json(),
        "created_s": key.created_s,
        "expires_s": key.expires_s,
        "revoked_s": key.revoked_s,
        "limits": key.limits.given(),
    }


def _names(value: object, of: str) -> tuple[str, ...]:
    """Granted names, possibly patterns with * at the end."""
    if not isinstance(value, list | tuple | None) or not all(isinstance(name, str) for name in value or ()):
        raise BadGrant(f"{of} must be a list of names", of)
    for name in value or ():
        if of in ("read", "write") and _COLLECTION.fullmatch(name) is None:
            raise BadGrant(f"{of} {name!r}: letters, digits, '.', '_' and '-', and * at the end only", of)
        if not name or "*" in name[:-1] or not name.isprintable():
            what = "table" if of == "query" else "model"
            raise BadGrant(f"{of} {name!r}: the name of a {what}, with * at the end only", of)
        if of == "query" and "." not in name and name[-1] != "*":
            raise BadGrant(f"query {name!r}: write DATABASE.TABLE, as shop.sales or shop.*", of)
    return tuple(value or ())


def _yes(value: object, of: str) -> bool:
    if not isinstance(value, bool | None):
        raise BadGrant(f"{of} must be true or false", of)
    return value is True


def _groups(value: object) -> tuple[str, ...] | None:
    """Names of groups; * alone stands for all."""
    if value in (["*"], ("*",)):
        return None
    try:
        return checked_groups(value or ())
    except ValueError as error:
        raise BadGrant(str(error), "groups") from error


def _text(value: object, param: str, *, least: int = 0) -> str:
    if not isinstance(value, str) or not value.isprintable() or not least <= len(value.strip()) <= _MOST_NAME_CHARS:
        chars = f"{least} to {_MOST_NAME_CHARS} characters"
        raise BadGrant(f"{param} must be text that can be printed, {chars}", param)
    return value
