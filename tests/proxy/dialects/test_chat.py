"""A chat request's bytes: what is not edited stays, what cannot be read is a 400 and nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.dialects.base import ConversationMessage, ModelRequest, Position, text_of
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from tests.support.rows import all_rows

MESSAGE = b'{"role":"user","content":"hi"}'


def refusal(call: Callable[[], object]) -> ApiError:
    """The 400 that `call` raises; its body can be sent."""
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.status == 400
    assert json.loads(caught.value.body())["error"]["message"]
    return caught.value


def body_of(**fields: Any) -> ModelRequest:
    return CHAT.parse(json.dumps(fields).encode())


# Bodies that cannot be read


@all_rows(
    "raw",
    [
        b"",
        b" \n",
        b"{",
        b"}",
        b"not json",
        b"{'model': 1}",
        b'{"model": "m",}',
        b'{"model": "m"} x',
        b'{"model": "m"}{}',
        b'{"temperature": NaN}',
        b'{"temperature": Infinity}',
        b'{"temperature": -Infinity}',
        b'{"temperature": NaN, "user": "\\ud800"}',
        b'{"temperature": 01}',
        b'{"user": "\xff"}',
        b'{"user": "\xed\xa0\x80"}',
        b'{"user": "a\nb"}',
        b'{"user": "\\x41"}',
        b'{"user": "\\ud800", "a": tru}',
        b'\xef\xbb\xbf{"model": "m"}',
        b'{\x00"model": "m"}',
        '{"model": "m"}'.encode("utf-16"),
        b"\x1f\x8b\x08\x00",
        b'{"seed": ' + b"1" * 5000 + b"}",
    ],
)
def test_what_is_not_json_is_a_400(raw: bytes) -> None:
    assert refusal(lambda: CHAT.parse(raw)).code == "invalid_json"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"[]", "a list"),
        (b'"{}"', "a text"),
        (b"1", "a number"),
        (b"1.5", "a number"),
        (b"true", "a boolean"),
        (b" null ", "null"),
        (b'"\\ud800"', "a text"),
    ],
)
def test_what_is_not_an_object_is_a_400_that_says_what_it_is(raw: bytes, kind: str) -> None:
    error = refusal(lambda: CHAT.parse(raw))
    assert error.code == "invalid_body"
    assert kind in error.message


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("extra", [b"", b',"user":"\\ud800"'])
def test_a_hundred_thousand_levels_are_a_400(opening: bytes, closing: bytes, extra: bytes) -> None:
    deep = opening * 100_000 + b"1" + closing * 100_000
    assert refusal(lambda: CHAT.parse(b'{"a":' + deep + extra + b"}")).code in ("invalid_json", "invalid_body")


def test_a_hundred_levels_are_read() -> None:
    deep = b"[" * 100 + b"]" * 100
    body = CHAT.parse(b'{"tools":' + deep + b',"model":"m"}')
    assert body.edited(model="n") == b'{"tools":' + deep + b',"model":"n"}'


@pytest.mark.parametrize("key", ["model", "messages", "rag"])
@pytest.mark.parametrize("spelling", ["{}", "\\u00{:02x}"])
def test_a_repeated_member_of_ours_is_a_400(key: str, spelling: str) -> None:
    again = key if spelling == "{}" else spelling.format(ord(key[0])) + key[1:]
    error = refusal(lambda: CHAT.parse(f'{{"{key}": 1, "x": 2, "{again}": 1}}'.encode()))
    assert (error.code, error.param) == ("duplicate_field", key)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"user": 1, "user": 2}',
        b'{"": 1, "": 2}',
        b'{"a": {"model": 1, "model": 2}}',
        b'{"messages": [{"rag": 1, "rag": 2}]}',
        b'{"Modell": 1, "MODE": 1, "model": 2, "Top_P": 1, "User": 2}',
        b'{"user": "\\"model\\": 1, \\"model\\": 2"}',
    ],
)
def test_repeated_members_of_others_pass(raw: bytes) -> None:
    assert CHAT.parse(raw).edited(without_rag=True) is raw


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Model", "model"),
        ("MODEL", "model"),
        ("me\u017f\u017fages", "messages"),
        ("\uff4d\uff4f\uff44\uff45\uff4c", "model"),
        ("RAG", "rag"),
        ("Max_Tokens", "max_tokens"),
        ("too\u2113s", "tools"),
        ("\u0399nput", ""),
        ("\u017ftream", "stream"),
        ("N", "n"),
    ],
)
def test_what_another_reader_takes_for_a_member_of_ours_is_a_400(name: str, meant: str) -> None:
    for raw in (json.dumps({name: 1, "model": "m"}).encode(), json.dumps({name: 1}, ensure_ascii=False).encode()):
        if not meant:
            assert CHAT.parse(raw).edited() is raw, "a Greek letter that only looks alike is another for every reader"
            continue
        error = refusal(lambda raw=raw: CHAT.parse(raw))  # type: ignore[misc]
        assert (error.code, error.param) == ("ambiguous_field", name)
        assert f"'{meant}'" in error.message


# Bodies that would take long


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a","model":"b","messages":[' + b"[]," * 200_000 + b"[]]}",
        b'{"x":[' + b"{}," * 200_000 + b"{}]}",
        b"{" + b",".join(b'"%d":1' % i for i in range(60_000)) + b"}",
        b'{"x":[' + b"1," * 510_000 + b"1]}",
        b'{"x":[' + b'"abc",' * 60_000 + b"1]}",
        b"[" * 1_000_000,
        b'{"\\"":[' + b"[]," * 200_000 + b"[]]}",
        b'{"user":"\\ud800","x":[' + b"1," * 21_000 + b"1]}",
    ],
    ids=["repeated", "objects", "members", "numbers", "texts", "open", "escaped", "half a surrogate pair"],
)
def test_more_values_than_anybody_means_are_refused_before_they_are_parsed(raw: bytes) -> None:
    error = refusal(lambda: CHAT.parse(raw))
    assert (error.code, "too many values" in error.message) == ("invalid_body", True)


def test_a_body_at_the_limits_is_read() -> None:
    for values in (b"1," * 499_000, b'"abc",' * 49_000, b"[]," * 49_000):
        assert len(CHAT.parse(b'{"x":[' + values + b"1]}").fields["x"]) > 49_000


@pytest.mark.parametrize("unit", ["[{:,}]", '\\"[{', "\\\\", "\\u005b[", "日[,", '\\\\\\"{:'])
def test_texts_may_hold_any_number_of_brackets(unit: str) -> None:
    raw = ('{"model":"m","messages":[{"role":"user","content":"' + unit * 400_000 + '"}],"model":"m"}').encode()
    assert refusal(lambda: CHAT.parse(raw)).code == "duplicate_field", "it was read"
    raw = raw.replace(b',"model":"m"}', b"}")
    body = CHAT.parse(raw)
    assert body.edited(model="n") == raw.replace(b'"m"', b'"n"', 1)
    assert body.edited(context="x", position="tail").endswith(b'\\n\\nx"}]}')


def test_a_name_of_megabytes_is_none_of_ours() -> None:
    raw = b'{"\\u006dodel' + b"a\\n" * 1_000_000 + b'":1,"\\u006dodel":"m","messages":[]}'
    assert CHAT.parse(raw).edited(model="n") == raw.replace(b'"m"', b'"n"')


def test_a_number_that_no_reader_holds_is_a_400_and_a_long_text_of_digits_is_none() -> None:
    assert refusal(lambda: CHAT.parse(b'{"seed": ' + b"1" * 400 + b"}")).code == "invalid_json"
    assert refusal(lambda: CHAT.parse(b'{"seed": 1e4000, "user": "\\ud800"}')).code == "invalid_json"
    assert CHAT.parse(b'{"user": "\\ud800' + b"1" * 4000 + b'"}').fields["user"] == "\ud800" + "1" * 4000


# Edits


def test_without_an_edit_the_very_same_bytes_come_back() -> None:
    raw = b'\t{ "model" :"m" , "messages":[ ], "x":1.0e-7 }\r\n'
    body = CHAT.parse(raw)
    assert body.edited() is raw
    assert body.edited(model="m", without_rag=True) is raw
    assert body.edited(context="") is raw


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (b"[]", b"[%s]"),
        (b"[ ]", b"[%s ]"),
        (b"[%s]" % MESSAGE, b"[%%s,%s]" % MESSAGE),
        (b"[ \n%s\n]" % MESSAGE, b"[%%s, \n%s\n]" % MESSAGE),
    ],
)
def test_the_lead_stands_first_among_the_messages(messages: bytes, expected: bytes) -> None:
    lead = b'{"role":"system","content":"look"}'
    assert (
        CHAT.parse(b'{"messages":' + messages + b"}").edited(context="look") == b'{"messages":' + expected % lead + b"}"
    )


@pytest.mark.parametrize("lead", ['"}]', "\\", "a\nb\x00\x7f", "日本 🎈 \u2028", "{passages}"])
def test_the_lead_is_text_whatever_is_in_it(lead: str) -> None:
    edited = json.loads(CHAT.parse(b'{"messages":[' + MESSAGE + b"]}").edited(context=lead))
    assert edited["messages"] == [{"role": "system", "content": lead}, json.loads(MESSAGE)]


# The other positions

SYSTEM = b'{"role":"system","content":"Be brief."}'
TEXT = 'look: "}]\\ 日本 \n'
TEXT_ESCAPED = b'look: \\"}]\\\\ ' + "日本".encode() + b" \\n"


def positioned(messages: bytes, position: Position, context: str = "look") -> bytes:
    """The `messages` after the edit; all around them must be as it was."""
    head, tail = b'{ "x":1e-7 ,"messages" : ', b',"seed":9223372036854775808,"model":"m"}'
    edited = CHAT.parse(head + messages + tail).edited(context=context, position=position)
    assert edited.startswith(head)
    assert edited.endswith(tail)
    return edited[len(head) : -len(tail)]


LEAD = b'{"role":"system","content":"look"}'
PART = b'{"type":"text","text":"look"}'


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (b'[%s,{"role":"system","content":"Be brief."}]', b'[%s,{"role":"system","content":"Be brief.\\n\\nlook"}]'),
        (b'[{"role":"developer","content":"a"},%s]', b'[{"role":"developer","content":"a\\n\\nlook"},%s]'),
        (
            b'[%s, {"content" : "a\\\\" , "role":"system"},{"role":"system","content":"b"}]',
            b'[%s, {"content" : "a\\\\\\n\\nlook" , "role":"system"},{"role":"system","content":"b"}]',
        ),
        (b'[{"role":"system","content":""},%s]', b'[{"role":"system","content":"look"},%s]'),
        (b'[{"role":"system","content":"\\""},%s]', b'[{"role":"system","content":"\\"\\n\\nlook"},%s]'),
        (b'[{"role":"system","content":[]},%s]', b'[{"role":"system","content":[PART]},%s]'),
        (b'[{"role":"system","content":[ ]},%s]', b'[{"role":"system","content":[ PART]},%s]'),
        (
            b'[{"role":"system","content":[{"type":"text","text":"a]"} ],"x":[1.0]},%s]',
            b'[{"role":"system","content":[{"type":"text","text":"a]"} ,PART],"x":[1.0]},%s]',
        ),
    ],
)
def test_merge_is_the_end_of_the_clients_own_first_instruction(messages: bytes, expected: bytes) -> None:
    filled = expected.replace(b"PART", PART)
    assert positioned(messages.replace(b"%s", MESSAGE), "merge") == filled.replace(b"%s", MESSAGE)


@pytest.mark.parametrize(
    "messages",
    [
        b"[]",
        b"[%s]" % MESSAGE,
        b'[{"role":"system"},%s]' % MESSAGE,
        b'[{"role":"system","content":null},{"role":"system","content":"b"}]',
        b'[{"role":"developer","content":{"text":"b"}}]',
        b'[{"role":"system","content":7}]',
        b'[{"role":"System","content":"a"}]',
    ],
)
def test_merge_leads_where_there_is_nothing_to_merge_into(messages: bytes) -> None:
    comma = b"" if messages == b"[]" else b","
    assert positioned(messages, "merge") == b"[" + LEAD + comma + messages[1:]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (b"[%s]" % MESSAGE, b'[{"role":"user","content":"hi\\n\\nlook"}]'),
        (b"[%s,%s ]" % (MESSAGE, MESSAGE), b'[%s,{"role":"user","content":"hi\\n\\nlook"} ]' % MESSAGE),
        (
            b'[{"role":"user","content":"[{\\"\\\\"},{"role":"assistant","content":"So"}]',
            b'[{"role":"user","content":"[{\\"\\\\\\n\\nlook"},{"role":"assistant","content":"So"}]',
        ),
        (
            b'[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]',
            b'[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},PART]}]',
        ),
    ],
)
def test_tail_is_the_end_of_the_newest_user_message(messages: bytes, expected: bytes) -> None:
    assert positioned(messages, "tail") == expected.replace(b"PART", PART)


def test_tail_leaves_out_a_message_of_the_program() -> None:
    program = b',{"role":"user","content":"<environment_details>x</environment_details>"}]'
    expected = b'[{"role":"user","content":"Q\\n\\nlook"}' + program
    assert positioned(b'[{"role":"user","content":"Q"}' + program, "tail") == expected


@pytest.mark.parametrize("messages", [b"[%s]" % SYSTEM, b'[{"role":"user","content":null}]', b'[{"role":"user"}]'])
def test_tail_leads_where_no_user_has_said_anything(messages: bytes) -> None:
    assert positioned(messages, "tail") == b"[" + LEAD + b"," + messages[1:]


ROUNDS = [
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\\"a\\":1}"}}]}',
    b'{"role":"tool","tool_call_id":"c1","content":"42"}',
    b'{"role":"assistant","content":"","tool_calls":[{"id":"c2","function":{"name":"f","arguments":"{}"}}]}',
    b'{"role":"tool","tool_call_id":"c2","content":"43"}',
    b'{"role":"assistant","content":"prefilled: "}',
]


@pytest.mark.parametrize("position", ["lead", "merge", "tail"])
def test_in_every_tool_round_the_same_bytes_stand_in_the_same_place(position: Position) -> None:
    first = positioned(b"[" + SYSTEM + b"," + MESSAGE + b"]", position)
    for n in range(1, len(ROUNDS) + 1):
        rounds = b",".join(ROUNDS[:n])
        assert positioned(b"[%s,%s,%s]" % (SYSTEM, MESSAGE, rounds), position) == first[:-1] + b"," + rounds + b"]"


@pytest.mark.parametrize("position", ["merge", "tail"])
@pytest.mark.parametrize("again", [b'"content"', b'"c\\u006fntent"'])
def test_of_two_contents_the_one_that_parsers_take_is_edited(position: Position, again: bytes) -> None:
    role = b"system" if position == "merge" else b"user"
    message = b'[{"content":["a"],"role":"%s", %s : "b" ,"content2":"c"}]' % (role, again)
    edited = positioned(message, position)
    assert edited == message.replace(b'"b"', b'"b\\n\\nlook"')
    assert json.loads(edited)[0]["content"] == "b\n\nlook"


@pytest.mark.parametrize("position", ["merge", "tail"])
@pytest.mark.parametrize("content", [b'"a"', b"[]"])
def test_at_every_position_the_text_is_text_whatever_is_in_it(position: Position, content: bytes) -> None:
    role = b"system" if position == "merge" else b"user"
    edited = positioned(b'[{"role":"%s","content":%s}]' % (role, content), position, TEXT)
    assert TEXT_ESCAPED in edited
    value = json.loads(edited)[0]["content"]
    assert value == ("a\n\n" + TEXT if content == b'"a"' else [{"type": "text", "text": TEXT}])


@pytest.mark.parametrize("position", ["lead", "merge", "tail"])
def test_all_edits_at_once_at_every_position(position: Position) -> None:
    raw = b'{"rag":{"k":3}, "messages":[' + SYSTEM + b"," + MESSAGE + b'], "model":"m"}'
    alone = CHAT.parse(b'{"messages":[' + SYSTEM + b"," + MESSAGE + b'], "model":"longer name"}')
    edited = CHAT.parse(raw).edited(context="x", position=position, model="longer name", without_rag=True)
    assert edited == alone.edited(context="x", position=position)


def test_a_body_of_megabytes_is_edited_at_every_position() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 450_000}}
    long = {"role": "assistant", "content": '\\"{[' * 100_000}
    user = {"role": "user", "content": [{"type": "text", "text": "?"}, image]}
    messages = [{"role": "developer", "content": "a"}, long, user]
    raw = json.dumps({"messages": messages, "model": "m"}).encode()
    assert len(raw) > 5_000_000
    tail = b',{"type":"text","text":"x"}]}], "model": "m"}'
    assert CHAT.parse(raw).edited(context="x", position="tail") == raw[: -len(b']}], "model": "m"}')] + tail
    merged = raw.replace(b'"content": "a"', b'"content": "a\\n\\nx"', 1)
    assert CHAT.parse(raw).edited(context="x", position="merge") == merged


# Model and rag


def test_the_model_is_replaced_where_it_stands_and_nowhere_else() -> None:
    raw = b'{"user":"model","a":{"model":"m"},"mod\\u0065l" : "m" ,"tools":["model","m"]}'
    expected = b'{"user":"model","a":{"model":"m"},"mod\\u0065l" : "n\\"" ,"tools":["model","m"]}'
    assert CHAT.parse(raw).edited(model='n"') == expected


@pytest.mark.parametrize("model", ["raw/\ud800", "日本/模型", '"\\'])
def test_a_model_of_any_spelling_can_be_put_in(model: str) -> None:
    assert json.loads(CHAT.parse(b'{"model":"m"}').edited(model=model)) == {"model": model}


@all_rows(
    ("raw", "expected"),
    [
        (b'{"rag":false}', b"{}"),
        (b'{ "rag" : {"k": 1} }', b"{  }"),
        (b'{"rag":1,"a":2}', b'{"a":2}'),
        (b'{"rag":1 ,\n "a":2}', b'{"a":2}'),
        (b'{"a":2,"rag":[1,{"rag":2}]}', b'{"a":2}'),
        (b'{"a":2 , "rag":"x" }', b'{"a":2 }'),
        (b'{"a":1, "r\\u0061g":{"a":"}"}, "b":2}', b'{"a":1, "b":2}'),
        (b'{"a":{"rag":1},"b":"rag"}', b'{"a":{"rag":1},"b":"rag"}'),
        (b'{"rag":null,"a":-0}', b'{"a":-0}'),
        (b'{"rag":null}', b"{}"),
        (b'{ "rag" : null , "a" : 1 }', b'{ "a" : 1 }'),
        (b'{"a":1 ,\t"rag"\r\n:\nnull\n}', b'{"a":1\n}'),
        (b'{"a":"]}","rag":"\\"},{","b":[1,"rag"]}', b'{"a":"]}","b":[1,"rag"]}'),
        (b'{"a":{"rag":1},"rag":{"collections":["\\\\"]},"b":2}', b'{"a":{"rag":1},"b":2}'),
    ],
)
def test_rag_goes_with_one_comma(raw: bytes, expected: bytes) -> None:
    assert CHAT.parse(raw).edited(without_rag=True) == expected


def test_all_edits_at_once_do_not_disturb_each_other() -> None:
    raw = b'{"messages":[' + MESSAGE + b'], "model":"m", "rag":{"k":3}}'
    expected = b'{"messages":[{"role":"system","content":"x"},' + MESSAGE + b'], "model":"longer name"}'
    assert CHAT.parse(raw).edited(context="x", model="longer name", without_rag=True) == expected


def test_a_body_of_megabytes_is_edited() -> None:
    image = "data:image/png;base64," + "iVBORw0KGgo" * 500_000
    messages = [{"role": "user", "content": image}, {"role": "tool", "x": ['\\"{['] * 45_000}]
    raw = json.dumps({"messages": messages, "model": "m"}).encode()
    assert CHAT.parse(raw).edited(model="n") == raw[: -len('"m"}')] + b'"n"}'


def test_half_a_surrogate_pair_passes_as_it_came() -> None:
    raw = b'{"model":"m","messages":[{"role":"user","content":"cut \\ud83d"}],"\\udc00":"\\ud800"}'
    body = CHAT.parse(raw)
    assert body.edited() is raw
    assert body.edited(model="n") == raw.replace(b'"m"', b'"n"')
    assert body.fields["messages"][0]["content"] == "cut \ud83d"


def test_numbers_too_large_for_a_double_pass_as_they_came() -> None:
    raw = b'{"seed":1e400,"model":"m","n":99999999999999999999999}'
    assert CHAT.parse(raw).edited(model="n") == raw.replace(b'"m"', b'"n"')


# What is read of it


def test_reads_the_model() -> None:
    assert body_of(model="gpt-4o").model() == "gpt-4o"


@pytest.mark.parametrize("fields", [{}, {"model": None}, {"model": ""}, {"model": 4}, {"model": ["m"]}])
def test_a_missing_model_is_a_400(fields: dict[str, Any]) -> None:
    error = refusal(lambda: body_of(**fields).model())
    assert (error.code, error.param) == ("missing_model", "model")


def test_a_model_longer_than_any_name_is_a_400_that_does_not_quote_it() -> None:
    error = refusal(body_of(model="m" * 100_000).model)
    assert (error.code, error.param) == ("invalid_model", "model")
    assert len(error.body()) < 1000


def test_reads_messages_with_all_that_is_in_them() -> None:
    calls = [{"id": "1"}]
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "anything", "content": "a"}]
    expected = [ConversationMessage("assistant", "", calls), ConversationMessage("anything", "a")]
    assert body_of(messages=messages).messages() == expected


@pytest.mark.parametrize(
    ("messages", "found"),
    [([], "none"), (None, "none"), ({}, "none"), ({"role": "user"}, "an object"), ("hi", "a text"), (7, "a number")],
)
def test_messages_that_are_no_list_are_a_400(messages: Any, found: str) -> None:
    error = refusal(lambda: body_of(messages=messages).messages())
    assert (error.code, error.param) == ("invalid_messages", "messages")
    assert found in error.message


@pytest.mark.parametrize("message", [None, "hi", [], {}, {"content": "hi"}, {"role": None}, {"role": 1}])
def test_a_message_without_a_role_is_a_400_that_names_it(message: Any) -> None:
    error = refusal(lambda: body_of(messages=[{"role": "user"}, message]).messages())
    assert (error.code, error.param) == ("invalid_messages", "messages[1]")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        ("", ""),
        (None, ""),
        (7, ""),
        ({"type": "text", "text": "hi"}, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image_url", "image_url": {"url": "data:"}}], ""),
        ([{"type": "text"}, {"type": "text", "text": None}, "bare", None, {"text": "untyped"}], ""),
    ],
)
def test_reads_the_text_of_any_content(content: Any, text: str) -> None:
    assert text_of(content) == text
