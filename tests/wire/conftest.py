"""What the tests over the wire share: a served gateway, and the upstream behind it that records what it gets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway import Served, serving
from tests.recording_upstream import Recorder, recording

SETTINGS = """
server: {{max_body_mb: 1}}
models:
  echo: {{lane: echo}}
  gpt-x: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  alias: {{model: gpt-x-2024-08-06, api_base: "{upstream}/v1"}}
upstream:
  paths: {{/v1/files: gpt-x}}
"""


@pytest.fixture(scope="session")
def _recorder() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


@pytest.fixture
def recorder(_recorder: Recorder) -> Recorder:
    """The upstream of gpt-x and alias, with nothing recorded yet."""
    return _recorder.fresh()


@pytest.fixture(scope="session")
def gateway(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, _recorder: Recorder
) -> Iterator[Served]:
    """A gateway with the corpus as its collection `docs`; tests leave it as they found it."""
    settings = SETTINGS.format(upstream=_recorder.url)
    with serving(learned(), tmp_path_factory.mktemp("gateway"), settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
        yield served
