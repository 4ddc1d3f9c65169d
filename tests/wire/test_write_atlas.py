"""A cluster is created and not deleted: shown by one gateway, confirmed at another, behind digest authentication."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.action_clients import BY_CHAT, STREAMED, SdkChat
from tests.support.action_team import SECRETS, serving_sets
from tests.support.atlas_api import GROUP, PASSWORD, AtlasApi, atlas_api, document
from tests.support.gateway import Served, serving
from tests.support.postgres_server import Postgres
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, Turn, calls, says
from tests.support.served_qdrant import SharedQdrant

SETTINGS = """
embedder: {{model: hash}}
qdrant: {{url: "{qdrant}"}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions:
  atlas:
    auth: digest
    user_env: ATLAS_USER
    secret_env: ATLAS_PASSWORD
    fixed: {{groupId: {group}}}
    networks: ["127.0.0.0/8"]
    writes: confirm
    always: [createCluster, deleteCluster, listClusters]
"""
CREATE = ("act_createCluster", {"body": {"name": "test-7", "providerName": "AWS"}})
DELETE = ("act_deleteCluster", {"clusterName": "test-7"})


@dataclass
class Pair:
    """Two gateways over one PostgreSQL and one Qdrant, the API, and the model."""

    one: Served
    two: Served
    api: AtlasApi
    recorder: Recorder

    def script(self, *turns: Turn) -> None:
        ScriptedModel(self.recorder.fresh(), turns)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        api, recorder = stack.enter_context(atlas_api()), stack.enter_context(recording())
        qdrant = SharedQdrant().serve(stack.enter_context(recording()))
        settings = SETTINGS.format(model=recorder.url, qdrant=qdrant, group=GROUP)
        environ = {**SECRETS, "RAGWAY_CATALOG__URL": postgres.database()}
        sets = {"atlas": document(api.url)}
        one = stack.enter_context(serving_sets(tmp_path_factory.mktemp("one"), settings, sets, **environ))
        folder = tmp_path_factory.mktemp("two")
        (folder / "data").mkdir()
        two = stack.enter_context(serving(folder / "data", folder, settings, **environ))
        yield Pair(one, two, api, recorder)


@BY_CHAT
@STREAMED
def test_a_cluster_is_created_once_and_not_deleted(pair: Pair, kind: type[SdkChat], stream: bool) -> None:
    api = pair.api
    api.clusters = [one for one in api.clusters if one["name"] == "prod"]
    api.seen.clear()
    api.bodies.clear()
    chat = kind(pair.one.url)
    pair.script(calls(CREATE))
    shown = chat.ask("Create a cluster test-7 at AWS.", stream=stream).text
    assert f"POST {api.url}/groups/" in shown
    assert "test-7" in shown
    assert GROUP not in shown
    assert PASSWORD not in shown
    assert api.bodies == []

    chat.url = pair.two.url
    pair.script(says("The cluster is being created."))
    (code,) = set(re.findall(r"[A-Z2-7]{4}-[A-Z2-7]{4}", shown))
    done = chat.ask(f"confirm {code}", stream=stream).text
    assert done.endswith("The cluster is being created.")
    assert [one for one in api.seen if not one.startswith("GET")] == [f"POST /groups/{GROUP}/clusters"]
    assert list(map(json.loads, api.bodies)) == [CREATE[1]["body"]]
    assert [one["name"] for one in api.clusters] == ["prod", "test-7"]

    pair.script(calls(DELETE))
    shown = chat.ask("Delete the cluster test-7.", stream=stream).text
    assert "DELETE" in shown
    assert "/clusters/test-7" in shown
    pair.script(says("It stays."))
    assert chat.ask("no", stream=stream).text == "It stays."
    assert [one["name"] for one in api.clusters] == ["prod", "test-7"]
