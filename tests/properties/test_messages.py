"""Whatever a request for a message holds, in whatever spelling: passages change the declared place alone."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.dialects.base import Position
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from tests.contracts.test_dialects import CONTEXT, POSITIONS, declared
from tests.properties.test_chat import CONTENT, joined, strings, values

ROLES = ['"user"', '"user"', r'"us\u0065r"', '"assistant"', '"system"', "null"]
TYPES = ['"text"', r'"t\u0065xt"', '"tool_result"', '"tool_use"', '"thinking"', "null"]
QUESTION = '{"role":"user","content":[{"type":"text","text":"Q"}]}'
SYSTEMS = ['"system"', r'"syst\u0065m"', r'"\u0073ystem"']


@st.composite
def members(draw: st.DrawFn, *named: tuple[list[str], st.SearchStrategy[str]]) -> str:
    """An object with members of these names, and with other members."""
    pairs = [(draw(st.sampled_from(names)), draw(value)) for names, value in named]
    pairs += draw(st.lists(st.tuples(strings, values), max_size=1))
    return joined(draw, [f"{name}:{value}" for name, value in draw(st.permutations(pairs))], "{", "}")


@st.composite
def contents(draw: st.DrawFn) -> str:
    blocks = members((['"type"'], st.sampled_from(TYPES)), (['"text"', '"content"'], strings)) | values
    return draw(strings | values) if draw(st.booleans()) else joined(draw, draw(st.lists(blocks, max_size=4)), "[", "]")


messages = members((['"role"'], st.sampled_from(ROLES)), (CONTENT, contents()))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    rows = joined(draw, [*draw(st.lists(messages, max_size=4)), QUESTION], "[", "]")
    pairs = [('"model"', '"m"'), ('"messages"', rows)]
    if draw(st.booleans()):
        pairs.append((draw(st.sampled_from(SYSTEMS)), draw(contents())))
    return joined(draw, [f"{name} :{value}" for name, value in draw(st.permutations(pairs))], "{", "}").encode()


@example(b'{"model":"m","system":" ","messages":[{"role":"user","content":"Q"}]}', "lead")
@given(requests(), st.sampled_from(POSITIONS))
def test_passages_change_the_declared_place_alone(raw: bytes, position: Position) -> None:
    try:
        request = MESSAGES.parse(raw)
        request.messages()
    except ApiError:
        return
    before, after = json.loads(raw), json.loads(request.edited(context=CONTEXT, position=position))
    assert declared(MESSAGES, before, after) == before
