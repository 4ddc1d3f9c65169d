"""Dialogues about orders, returns and addresses: what the shop has in the end, and what arrived there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.action_clients import SdkChat
from tests.support.dialogues import DIALOGUES, KINDS, Play, ShopTeam, shop_team, way_of
from tests.support.shop_api import document, shop_api

ROWS = [pytest.param(one, id=one["name"]) for one in DIALOGUES]
IN_PARTS = [row for row in ROWS if "part of a message" in str(row.id)]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopTeam]:
    with shop_team(tmp_path_factory.mktemp("shop")) as team:
        yield team


@pytest.mark.parametrize("dialogue", ROWS)
def test_a_dialogue_ends_as_expected(team: ShopTeam, dialogue: dict[str, Any]) -> None:
    Play(team, *way_of(dialogue)).dialogue(dialogue)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dialogue", IN_PARTS)
def test_of_a_message_in_parts_the_last_text_counts(
    team: ShopTeam, dialogue: dict[str, Any], kind: type[SdkChat]
) -> None:
    Play(team, kind, stream=False).dialogue(dialogue)


def test_the_expected_writes_leave_the_expected_rows(tmp_path: Path) -> None:
    """Without a gateway: the dialogues are right about the shop."""
    with shop_api(tmp_path / "shop.db") as shop, httpx.Client(base_url=shop.url) as client:
        paths = document(shop.url)["paths"]
        for dialogue in DIALOGUES:
            shop.fresh()
            fails = [turn for turn in dialogue["turns"] if turn.get("shop") == "fail"]
            for number, row in enumerate(dialogue.get("sent", [])):
                method, target, *given = row.split(" ", 2)
                shop.refuses = int(bool(fails) and number == 0)
                body = json.loads(given[0]) if given else None
                client.send(client.build_request(method, target, **_content(paths, method, target, body)))
            assert [str(one) for one in shop.writes] == dialogue.get("sent", [])
            end = {table: {str(id): row for id, row in rows.items()} for table, rows in dialogue.get("end", {}).items()}
            assert shop.changes() == end, dialogue["name"]


def _content(paths: dict[str, Any], method: str, target: str, body: Any) -> dict[str, Any]:
    """The body as the document says, written by httpx."""
    if body is None:
        return {}
    parts = target.split("/")
    (path,) = (
        one
        for one in paths
        if method.lower() in paths[one]
        and len(one.split("/")) == len(parts)
        and all(a == b or a.startswith("{") for a, b in zip(one.split("/"), parts, strict=True))
    )
    (media_type,) = paths[path][method.lower()]["requestBody"]["content"]
    if media_type == "multipart/form-data":
        return {"files": {name: (None, text) for name, text in body.items()}}
    if media_type == "application/x-www-form-urlencoded":
        return {"data": body}
    text = body if media_type == "text/plain" else json.dumps(body)
    return {"content": text.encode(), "headers": {"content-type": media_type}}
