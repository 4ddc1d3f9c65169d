"""From settings to targets: where each configured model is, and with whose key. Imports no way to a model."""

import re
from collections.abc import Mapping
from dataclasses import replace

from config.sections import Model, Settings
from config.settings import SettingsError, check_address
from proxy.dialects.base import Position
from proxy.dialects.target import Lane, Target
from runtime.logs import host_of

OPENAI_BASE_URL = "https://api.openai.com/v1"
# litellm's prefixes for providers that do not speak OpenAI's dialect: `auto` translates their models.
_FOREIGN = (
    "anthropic", "azure", "azure_ai", "bedrock", "cohere", "cohere_chat", "gemini", "replicate", "sagemaker",
    "vertex_ai", "watsonx",
)  # fmt: skip
# How variables begin in which litellm finds a provider's key, if not with the provider's name; and providers whose
# credentials are more than a key.
_KEY_FAMILIES = {"cohere": ("CO", "COHERE"), "cohere_chat": ("CO", "COHERE"), "gemini": ("GEMINI", "GOOGLE")}
_WITHOUT_ONE_KEY = ("bedrock", "sagemaker", "vertex_ai", "watsonx")


def targets(settings: Settings, environ: Mapping[str, str]) -> dict[str, Target]:
    """Every row of `models`, resolved; without rows: OpenAI by its usual variables, else echo."""
    base, key = environ.get("OPENAI_BASE_URL", ""), environ.get("OPENAI_API_KEY", "")
    if not settings.models:
        if base or key:
            passed = settings.auth.pass_client_key and not key
            base = _openai_base(environ)
            return {"*": Target("", "relay", base, key, passed, settings.inject.position, row="*")}
        return {"*": Target("", "echo", "", "", position=settings.inject.position, row="*")}
    passing = settings.auth.pass_client_key
    rows = {name: _target(name, row, environ, settings.inject.position) for name, row in settings.models.items()}
    return {name: replace(row, key_of_client=passing and _keyless(name, row, environ)) for name, row in rows.items()}


def _keyless(name: str, row: Target, environ: Mapping[str, str]) -> bool:
    """Whether a row's upstream takes a key, and we have none."""
    if row.api_key or row.lane == "echo":
        return False
    if row.lane == "relay" or row.api_base:
        return True
    # litellm would take a key from the provider's usual variable, e.g. ANTHROPIC_API_KEY.
    provider, slash, _ = (row.model or name).partition("/")
    families = _KEY_FAMILIES.get(provider, (provider.upper() if slash else "OPENAI",))
    usual = re.compile(rf"({'|'.join(map(re.escape, families))})_(.*_)?(KEY|TOKEN)")
    return provider not in _WITHOUT_ONE_KEY and not any(value and usual.fullmatch(v) for v, value in environ.items())


def _openai_base(environ: Mapping[str, str]) -> str:
    base = environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL
    check_address(base, "OPENAI_BASE_URL")
    return base.rstrip("/")


def _target(name: str, row: Model, environ: Mapping[str, str], position: Position) -> Target:
    model = row.model or ""
    lane = _lane(name, row, environ)
    base = (row.api_base or "").rstrip("/")
    key_env = row.api_key_env
    if lane == "relay" and not base:
        base = _openai_base(environ)
        key_env = key_env or ("OPENAI_API_KEY" if environ.get("OPENAI_API_KEY") else None)
        if not model and not name.endswith("*"):
            model = name
        model = model.removeprefix("openai/")
    if key_env and not environ.get(key_env):
        raise SettingsError(f"models.{name}.api_key_env names the environment variable {key_env}, which is not set")
    if lane == "translated" and "?" in base:
        raise SettingsError(
            f"models.{name}.api_base has a query, which the translated lane cannot keep: leave it out (litellm takes "
            "Azure's version from AZURE_API_VERSION), or use lane: relay"
        )
    key = environ[key_env] if key_env else ""
    return Target(
        model,
        lane,
        base,
        key,
        position=row.position or position,
        window_tokens=row.window_tokens or 0,
        dialects=row.dialects,
        tools=row.tools,
        row=name,
    )


def _lane(name: str, row: Model, environ: Mapping[str, str]) -> Lane:
    """The lane for `auto`: relay for an OpenAI-dialect address, translated for other providers."""
    if row.lane != "auto":
        return row.lane
    provider, slash, _ = (row.model or name).partition("/")
    if not slash or provider == "openai":
        return "relay"
    addressed = row.api_base or environ.get("OPENAI_BASE_URL")
    return "translated" if provider in _FOREIGN or not addressed else "relay"


def upstream_names(targets: Mapping[str, Target]) -> dict[str, str]:
    """Each row's upstream, for metrics: its host, or litellm's name for the provider."""
    return {name: _upstream_of(target) for name, target in targets.items() if target.lane != "echo"}


def _upstream_of(target: Target) -> str:
    return host_of(target.api_base) if target.api_base else target.model.partition("/")[0]
