"""Settings become objects: which model goes where, with whose key, and what the index is told."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from cli.assembly.apis import action_api, call_limits
from cli.assembly.chats import template
from cli.assembly.gateway import gateway
from cli.assembly.index import plan
from cli.assembly.targets import targets
from config.sections import Settings
from config.settings import SettingsError, load
from proxy.apis.call import CallLimits, call
from proxy.apis.credentials import ApiKey, ClientCredentials, Digest
from proxy.apis.library import ActionSet
from proxy.apis.openapi.operation import Operation, Parameter
from proxy.dialects.target import Target
from tests.support.api_server import ApiRequest, Reply, api_server
from tests.support.unasked import Unasked

OPENAI = "https://api.openai.com/v1"


def settings_of(tmp_path: Path, text: str = "") -> Settings:
    file = tmp_path / "ragway.yaml"
    file.write_text(text, "utf-8")
    return load(file=file, environ={})


def targets_of(tmp_path: Path, models: str, environ: Mapping[str, str] | None = None) -> dict[str, Target]:
    return targets(settings_of(tmp_path, f"models: {models}"), environ or {})


# Without models


@pytest.mark.parametrize(
    ("environ", "target"),
    [
        ({}, Target("", "echo", "", "")),
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}, Target("", "echo", "", "")),
        ({"OPENAI_API_KEY": "sk-1"}, Target("", "relay", OPENAI, "sk-1")),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1/"}, Target("", "relay", "http://127.0.0.1:1/v1", "")),
        ({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "sk-1"}, Target("", "relay", "http://h/v1", "sk-1")),
    ],
)
def test_without_models_everything_goes_to_openai_by_its_variables_else_to_echo(
    tmp_path: Path, environ: dict[str, str], target: Target
) -> None:
    assert targets_of(tmp_path, "{}", environ) == {"*": target}


# Lanes


@pytest.mark.parametrize(
    ("row", "lane"),
    [
        ("gpt-4o: {}", "relay"),
        ("gpt-4o:", "relay"),
        ("x: {model: gpt-4o, api_base: 'http://h/v1'}", "relay"),
        ("x: {model: openai/gpt-4o}", "relay"),
        ("x: {model: some/model, api_base: 'http://h/v1'}", "relay"),
        ("x: {model: anthropic/claude-3}", "translated"),
        ("anthropic/claude-3:", "translated"),
        ("anthropic/*:", "translated"),
        ("'claude-*': {api_base: 'https://api.anthropic.com/v1'}", "relay"),
        ("anthropic:", "relay"),
        ("x: {model: gemini/flash}", "translated"),
        ("x: {model: anthropic/claude-3, lane: relay, api_base: 'http://h/v1'}", "relay"),
        ("x: {model: gpt-4o, lane: translated}", "translated"),
        ("x: {lane: echo}", "echo"),
        ("anthropic/x: {lane: echo}", "echo"),
    ],
)
def test_auto_translates_what_does_not_speak_openai_and_a_named_lane_is_taken(
    tmp_path: Path, row: str, lane: str
) -> None:
    (target,) = targets_of(tmp_path, "{" + row.rstrip(":") + ("}" if "{" in row else ": {}}")).values()
    assert target.lane == lane


# Bases and keys


def test_a_row_with_a_base_of_its_own_gets_no_key_that_was_not_named(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://elsewhere/v1"}
    (target,) = targets_of(tmp_path, "{x: {api_base: 'http://h/v1/'}}", environ).values()
    assert target == Target("", "relay", "http://h/v1", "")


def test_a_row_with_a_key_sends_that_key(tmp_path: Path) -> None:
    models = "{x: {model: y, api_base: 'http://h/v1', api_key_env: MY_KEY}}"
    assert targets_of(tmp_path, models, {"MY_KEY": "k1", "OPENAI_API_KEY": "k2"})["x"].api_key == "k1"


@pytest.mark.parametrize(
    ("environ", "base", "key"),
    [
        ({}, OPENAI, ""),
        ({"OPENAI_API_KEY": "sk-1"}, OPENAI, "sk-1"),
        ({"OPENAI_API_KEY": ""}, OPENAI, ""),
        ({"OPENAI_BASE_URL": "http://h/v1/", "OPENAI_API_KEY": "sk-1"}, "http://h/v1", "sk-1"),
    ],
)
def test_a_relayed_row_without_a_base_goes_where_openais_variables_say(
    tmp_path: Path, environ: dict[str, str], base: str, key: str
) -> None:
    assert targets_of(tmp_path, "{gpt-4o: {}}", environ) == {"gpt-4o": Target("gpt-4o", "relay", base, key)}


def test_a_name_with_openais_prefix_is_sent_without_it(tmp_path: Path) -> None:
    assert targets_of(tmp_path, "{openai/gpt-4o: {}}", {})["openai/gpt-4o"].model == "gpt-4o"


@pytest.mark.parametrize(
    ("row", "environ", "lane"),
    [
        ("{model: mistral/small}", {}, "translated"),
        ("{model: mistral/small, api_base: 'http://h/v1'}", {}, "relay"),
        ("{model: meta-llama/x}", {"OPENAI_BASE_URL": "http://h/v1"}, "relay"),
        ("{model: anthropic/x}", {"OPENAI_BASE_URL": "http://h/v1"}, "translated"),
        ("{model: openai/x}", {}, "relay"),
    ],
)
def test_auto_translates_a_provider_that_has_no_openai_address(
    tmp_path: Path, row: str, environ: dict[str, str], lane: str
) -> None:
    assert targets_of(tmp_path, f"{{x: {row}}}", environ)["x"].lane == lane


def test_openais_prefix_is_litellms_and_is_not_sent_to_openai(tmp_path: Path) -> None:
    models = "{a: {model: openai/gpt-4o}, b: {model: openai/gpt-4o, lane: translated}}"
    found = targets_of(tmp_path, models)
    assert (found["a"].model, found["b"].model) == ("gpt-4o", "openai/gpt-4o")


@pytest.mark.parametrize("environ", [{}, {"MY_KEY": ""}])
@pytest.mark.parametrize("lane", ["auto", "relay", "translated"])
def test_a_key_variable_that_is_not_set_is_an_error_that_names_it(
    tmp_path: Path, environ: dict[str, str], lane: str
) -> None:
    with pytest.raises(SettingsError, match=r"models\.x\.api_key_env .* MY_KEY, which is not set"):
        targets_of(tmp_path, f"{{x: {{api_key_env: MY_KEY, lane: {lane}}}}}", environ)


def test_a_translated_row_leaves_base_and_key_to_litellm(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://h/v1"}
    (target,) = targets_of(tmp_path, "{claude: {model: anthropic/claude-3}}", environ).values()
    assert target == Target("anthropic/claude-3", "translated", "", "")


# The client's own key


@pytest.mark.parametrize(
    ("row", "environ", "passed"),
    [
        ("{}", {}, True),
        ("{}", {"OPENAI_API_KEY": "sk-1"}, False),
        ("{api_base: 'http://h/v1'}", {"OPENAI_API_KEY": "sk-1"}, True),
        ("{api_base: 'http://h/v1', api_key_env: MY_KEY}", {"MY_KEY": "k"}, False),
        ("{lane: echo}", {}, False),
        ("{model: anthropic/claude}", {}, True),
        ("{model: anthropic/claude}", {"ANTHROPIC_API_KEY": "k"}, False),
        ("{model: anthropic/claude}", {"ANTHROPIC_AUTH_TOKEN": "k"}, False),
        ("{model: anthropic/claude}", {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": ""}, True),
        ("{model: anthropic/claude, api_base: 'http://h'}", {"ANTHROPIC_API_KEY": "k"}, True),
        ("{model: gemini/flash}", {"GOOGLE_API_KEY": "k"}, False),
        ("{model: gpt-4o, lane: translated}", {"OPENAI_API_KEY": "k"}, False),
        ("{model: bedrock/claude}", {}, False),
    ],
)
def test_a_clients_key_is_passed_only_where_none_is_configured(
    tmp_path: Path, row: str, environ: dict[str, str], passed: bool
) -> None:
    text = f"models: {{x: {row}}}"
    assert not targets(settings_of(tmp_path, text), environ)["x"].key_of_client
    found = targets(settings_of(tmp_path, "auth: {pass_client_key: true}\n" + text), environ)["x"]
    assert found.key_of_client == passed
    assert not (found.key_of_client and found.api_key)


@pytest.mark.parametrize(
    ("environ", "passed"),
    [({}, False), ({"OPENAI_BASE_URL": "http://h/v1"}, True), ({"OPENAI_API_KEY": "sk-1"}, False)],
)
def test_without_models_the_clients_key_goes_where_openais_address_says(
    tmp_path: Path, environ: dict[str, str], passed: bool
) -> None:
    assert targets(settings_of(tmp_path, "auth: {pass_client_key: true}"), environ)["*"].key_of_client == passed


def test_a_query_in_the_address_is_kept_in_the_relay_and_refused_in_the_translated_lane(tmp_path: Path) -> None:
    base = "https://x.example/openai/deployments/d?api-version=2024-10-21"
    assert targets_of(tmp_path, f"{{x: {{api_base: '{base}'}}}}")["x"].api_base == base
    with pytest.raises(SettingsError, match="models.x.api_base has a query"):
        targets_of(tmp_path, f"{{x: {{model: azure/d, lane: translated, api_base: '{base}'}}}}")


@pytest.mark.parametrize("base", ["http://u:secret-1@h/v1", "secret-1", "http://h:0/?secret-1", "http:///secret-1?a"])
def test_an_openai_base_url_that_cannot_be_used_is_refused_without_its_password(tmp_path: Path, base: str) -> None:
    with pytest.raises(SettingsError, match="OPENAI_BASE_URL must") as refused:
        targets_of(tmp_path, "{}", {"OPENAI_BASE_URL": base})
    assert "u:secret-1" not in str(refused.value)
    assert "?secret-1" not in str(refused.value)


# The gateway as a whole


@pytest.mark.parametrize(
    ("models", "needed"),
    [("{}", False), ("{a: {lane: echo}}", False), ("{a: {lane: translated}, b: {lane: echo}}", True)],
)
async def test_litellm_is_warmed_only_where_a_model_needs_it(tmp_path: Path, models: str, needed: bool) -> None:
    built = gateway(settings_of(tmp_path, f"models: {models}"), Unasked(), ready=lambda: "", environ={})
    built.ways.client.close()
    assert (built.ways.translated is not None) == needed


def test_the_template_is_the_shipped_one_unless_another_is_named(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("Mine: {passages}", "utf-8")
    assert "own documents" in template(settings_of(tmp_path)).render([], ["docs"])
    assert template(settings_of(tmp_path, f"inject: {{template: {own}}}")).render([], ["docs"]) == "Mine: "


@pytest.mark.parametrize("text", [None, "no place for them"])
def test_a_template_that_cannot_be_used_is_a_settings_error(tmp_path: Path, text: str | None) -> None:
    own = tmp_path / "own.txt"
    if text is not None:
        own.write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=r"inject\.template: .*own\.txt"):
        template(settings_of(tmp_path, f"inject: {{template: {own}}}"))


def test_the_index_is_told_everything_in_its_own_units(tmp_path: Path) -> None:
    text = """
    data: relative
    retrieval: {rewrite: off, k: 3, lexical: okapi}
    inject: {budget_tokens: 77}
    ingest: {max_file_mb: 2}
    qdrant: {url: "http://q:6333", api_key_env: MY_QDRANT_KEY}
    """
    found = plan(settings_of(tmp_path, text), {"MY_QDRANT_KEY": "qk", "QDRANT_API_KEY": "other"})
    assert found.data == str(Path.cwd() / "relative")
    assert (found.search.rewrite, found.search.k, found.search.budget_tokens) == ("off", 3, 77)
    assert (found.search.lexical, found.max_file_bytes) == ("okapi", 2 * 2**20)
    assert (found.qdrant.url, found.qdrant_api_key) == (("http://q:6333",), "qk")


def test_by_default_the_index_rewrites_and_needs_no_server(tmp_path: Path) -> None:
    found = plan(settings_of(tmp_path), {})
    assert found.search.rewrite == "local"
    assert (found.qdrant.url, found.qdrant_api_key) == ((), "")


def test_a_models_window_is_its_setting_else_what_litellm_knows(tmp_path: Path) -> None:
    found = targets_of(tmp_path, "{a: {lane: echo, window_tokens: 8192}, b: {lane: echo}}")
    assert (found["a"].window_tokens, found["b"].window_tokens) == (8192, 0)


def test_what_happens_after_fusion_is_told_to_the_index(tmp_path: Path) -> None:
    text = """
    retrieval: {mode: dense, rerank_model: x, rerank_candidates: 7, rerank_deadline_s: 3, recency_half_life_days: 30,
                merge_neighbours: false, neighbours: 2, whole_document_tokens: 900}
    """
    search = plan(settings_of(tmp_path, text), {}).search
    assert (search.mode, search.merge_neighbours) == ("dense", False)
    assert (search.rerank_model, search.rerank_candidates, search.rerank_deadline_s) == ("x", 7, 3.0)
    assert (search.recency_half_life_days, search.neighbours, search.whole_document_tokens) == (30.0, 2, 900)


# APIs of actions


def test_the_limits_of_a_call_are_the_settings(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "action_calls: {call_s: 7, result_max_mb: 2, result_chars: 900}")
    limits = call_limits(settings)
    assert (limits.seconds, limits.max_bytes, limits.max_chars) == (7, 2 << 20, 900)
    assert limits.pause_s < 1


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("{}", type(None)),
        ("{auth: api_key, secret_env: SECRET, key_in: query, key_name: key}", ApiKey),
        ("{auth: basic, user_env: NAME, secret_env: SECRET}", httpx.BasicAuth),
        ("{auth: bearer, secret_env: SECRET}", ApiKey),
        ("{auth: digest, user_env: NAME, secret_env: SECRET}", Digest),
        ("{auth: oauth2, user_env: NAME, secret_env: SECRET, token_url: 'https://x.example/token'}", ClientCredentials),
    ],
)
def test_an_api_gets_credentials_from_the_environment(tmp_path: Path, row: str, kind: type) -> None:
    settings, found = (
        settings_of(tmp_path, f"actions: {{atlas: {row}}}"),
        ActionSet("atlas", "", "https://a.example", 0, ()),
    )
    api = action_api(settings, found, {"NAME": "ann-1", "SECRET": "s3cret-1"})
    assert api is not None
    assert type(api.auth) is kind
    assert "s3cret" not in repr(api)
    if kind is not type(None):
        assert api.masked(b"a s3cret-1 YW5uLTE6czNjcmV0LTE=").startswith("a … ".encode())
        with pytest.raises(SettingsError, match=r"actions\.atlas: the environment variable (NAME|SECRET) is not set"):
            action_api(settings, found, {})


@pytest.mark.parametrize("value", ["s3cret-1\n", "\ufeffs3cret-1", "s3cret\r\n1"])
def test_a_secret_that_no_request_can_carry_is_refused_at_the_start(tmp_path: Path, value: str) -> None:
    """A file that becomes a variable often ends with a line break."""
    settings = settings_of(tmp_path, "actions: {atlas: {auth: bearer, secret_env: SECRET}}")
    with pytest.raises(SettingsError, match="variable SECRET has a line break or another character that") as caught:
        action_api(settings, ActionSet("atlas", "", "https://a.example", 0, ()), {"SECRET": value})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"secret": "s3cret-of-key"}, "atlas-user:s3cret-of-key"),
        ({"secret": "s3cret-of-key", "user": "key-user"}, "key-user:s3cret-of-key"),
        ({}, None),
        ({"user": "key-user", "fixed.groupId": "5f"}, None),
    ],
)
def test_an_api_of_keys_alone_takes_the_secret_of_the_key(
    tmp_path: Path, own: dict[str, str], expected: str | None
) -> None:
    row = "{auth: basic, user_env: NAME, secret_env: SECRET, secret_per_key: true}"
    settings, found = settings_of(tmp_path, f"actions: {{atlas: {row}}}"), ActionSet("atlas", "", "https://a.x", 0, ())
    api = action_api(settings, found, {"NAME": "atlas-user", "SECRET": "of-the-set"}, own)
    assert (api is None) == (expected is None)
    if api is not None and expected is not None:
        assert isinstance(api.auth, httpx.BasicAuth)
        sent = next(api.auth.auth_flow(httpx.Request("GET", "https://a.x"))).headers["authorization"]
        assert base64.b64decode(sent.removeprefix("Basic ")).decode() == expected


def test_a_user_of_the_key_is_needed_where_the_settings_name_none(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "actions: {atlas: {auth: basic, secret_per_key: true}}")
    found = ActionSet("atlas", "", "https://a.x", 0, ())
    assert action_api(settings, found, {}, {"secret": "s3cret"}) is None
    assert action_api(settings, found, {}, {"secret": "s3cret", "user": "u"}) is not None


CANARY = 'c4nary/+%20 "<1>"'
ROWS_WITH_A_SECRET = [
    "{auth: api_key, secret_env: SECRET, key_in: header}",
    "{auth: api_key, secret_env: SECRET, key_in: query}",
    "{auth: api_key, secret_env: SECRET, key_in: cookie}",
    "{auth: basic, user_env: NAME, secret_env: SECRET}",
    "{auth: bearer, secret_env: SECRET}",
    "{auth: digest, user_env: NAME, secret_env: SECRET}",
    "{auth: oauth2, user_env: NAME, secret_env: SECRET, token_url: BASE/token}",
    "{fixed: {groupId: SECRET}}",
]


@pytest.mark.parametrize("row", ROWS_WITH_A_SECRET)
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_secret_that_the_api_sends_back_stands_in_no_outcome(tmp_path: Path, row: str, status: int) -> None:
    async def echoes(request: ApiRequest) -> Reply:
        if request.target == "/token" and status == 200:
            return Reply(body=json.dumps({"access_token": CANARY}).encode())
        parts = {"target": request.target, "headers": request.headers, "body": request.body.decode()}
        challenge = ("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')
        return Reply(status, json.dumps(parts).encode(), [("Content-Type", "application/json"), challenge])

    async with api_server(echoes) as server:
        text = row.replace("BASE", server.base_url).replace("{groupId: SECRET}", f"{{groupId: {json.dumps(CANARY)}}}")
        settings = settings_of(tmp_path, f"actions: {{atlas: {text[:-1]}, networks: [127.0.0.0/8]}}}}")
        found = ActionSet("atlas", "", server.base_url, 0, ())
        api = action_api(settings, found, {"NAME": "ann-1", "SECRET": CANARY})
        assert api is not None
        schema = {"type": "object", "properties": {"groupId": {"type": "string"}}, "required": []}
        group = Parameter("groupId", "groupId", "query", "form", explode=True)
        outcome = await call(
            api, Operation("list", "GET", "/x", schema, parameters=(group,)), {}, CallLimits(pause_s=0)
        )
        await api.close()
    assert server.requests
    shown = f"{outcome.text} {outcome.whole!r} {outcome!r} {api!r}"
    assert "c4nary" not in shown
    assert base64.b64encode(f"ann-1:{CANARY}".encode()).decode().rstrip("=") not in shown
