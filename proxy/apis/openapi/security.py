"""Credentials that a document asks for, as members of a row in the setting `actions`."""

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.apis.openapi.references import BadReference, resolved

_MOST_CHARS = 200  # of a value from the document

Values = dict[str, Any]


def credentials_of(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Row members for the first scheme that the document requires, else names; empty without a scheme.

    name: the set's, for environment variable names.
    """
    components = document.get("components")
    found = components.get("securitySchemes") if isinstance(components, dict) else None
    schemes = found if isinstance(found, dict) else document.get("securityDefinitions")  # of version 2.0
    if not isinstance(schemes, dict):
        return {}
    variable = name.upper().replace("-", "_")
    for one in dict.fromkeys([*_required(document), *schemes]):
        try:
            scheme = resolved(document, schemes.get(one))
        except BadReference:
            continue
        if isinstance(scheme, dict) and (row := _row(scheme, variable)):
            return {key: value[:_MOST_CHARS] for key, value in row.items()}
    return {}


def _required(document: Mapping[str, Any]) -> Iterator[str]:
    """Names of required schemes: first for all operations, then for single ones."""
    paths = document.get("paths")
    items = [item for item in (paths.values() if isinstance(paths, dict) else ()) if isinstance(item, dict)]
    for place in (document, *(one for item in items for one in item.values() if isinstance(one, dict))):
        listed = place.get("security")
        for one in listed if isinstance(listed, list) else ():
            yield from one if isinstance(one, dict) else ()


def _row(scheme: Values, variable: str) -> dict[str, str]:
    kind, secret = scheme.get("type"), {"secret_env": f"{variable}_KEY"}
    user = {"user_env": f"{variable}_USER"}
    way = str(scheme.get("scheme")).lower() if kind == "http" else kind
    if way == "apiKey" and scheme.get("in") in ("header", "query", "cookie"):
        return {"auth": "api_key", "key_in": scheme["in"], "key_name": str(scheme.get("name")), **secret}
    if way in ("basic", "digest"):
        return {"auth": str(way), **user, **secret}
    if way == "oauth2":
        flows = scheme["flows"] if isinstance(scheme.get("flows"), dict) else {}
        flow = flows.get("clientCredentials") or (scheme if scheme.get("flow") == "application" else None)
        if isinstance(flow, dict) and isinstance(flow.get("tokenUrl"), str):
            return {"auth": "oauth2", "token_url": flow["tokenUrl"], **user, **secret}
    return {"auth": "bearer", **secret} if way in ("bearer", "oauth2", "openIdConnect") else {}
