"""What the tests over the wire share: two served gateways and the upstreams behind them.

`gateway` has an upstream that records bytes, `lanes` one of each dialect and models in both lanes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Served, serving
from tests.support.openai_server import KEY, openai_server
from tests.support.recording_upstream import Recorder, recording

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


@pytest.fixture(scope="module")
def _upstream() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


@pytest.fixture
def upstream(_upstream: Recorder) -> Recorder:
    """An upstream of this module's own, with nothing recorded yet."""
    return _upstream.fresh()


@pytest.fixture(scope="session")
def gateway(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, _recorder: Recorder
) -> Iterator[Served]:
    """A gateway with the corpus as its collection `docs`; tests leave it as they found it."""
    settings = SETTINGS.format(upstream=_recorder.url)
    with serving(learned(), tmp_path_factory.mktemp("gateway"), settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
        yield served


@pytest.fixture(scope="session")
def openai_url() -> Iterator[str]:
    """An OpenAI-dialect upstream, without /v1."""
    with openai_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def _claude() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


@pytest.fixture
def claude(_claude: Recorder) -> Recorder:
    """The upstream of the model `claude`, which speaks Anthropic's dialect as soon as a test tells it what to say."""
    return _claude.fresh()


_ROW = '  {lane}/{name}: {{model: "{model}", lane: {lane}, api_base: "{base}/v1"{key}}}'
_LANES = """
models:
  echo: {{lane: echo}}
{rows}
  claude: {{model: anthropic/claude-sonnet-4-5, api_base: "{claude}", api_key_env: KEY_OF_THE_UPSTREAM}}
"""


@pytest.fixture(scope="session")
def lanes(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, openai_url: str, _claude: Recorder
) -> Iterator[Served]:
    """A gateway with the corpus as `docs` and models in every lane; it loads litellm, which takes seconds."""
    rows = []
    for lane, prefix in (("relay", ""), ("translated", "openai/")):
        for name in ("gpt", "in-step", "limited", "keyless"):
            key = "" if name == "keyless" else ", api_key_env: KEY_OF_THE_UPSTREAM"
            rows.append(_ROW.format(lane=lane, name=name, model=prefix + name, base=openai_url, key=key))
    settings = _LANES.format(rows="\n".join(rows), claude=_claude.url)
    with serving(learned(), tmp_path_factory.mktemp("lanes"), settings, KEY_OF_THE_UPSTREAM=KEY) as served:
        yield served
