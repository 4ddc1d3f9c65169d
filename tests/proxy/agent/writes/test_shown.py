"""The confirmation of writes: true to the bytes, and not to be forged by a value."""

import contextlib
import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from proxy.agent.writes.sentences import sentences
from proxy.agent.writes.shown import CannotShow, ShownWrite, check_before, outcome, write_texts
from proxy.agent.writes.shown import confirmation as confirmation_of
from proxy.agent.writes.visible import visible
from proxy.apis.changes import changes
from proxy.apis.openapi.operation import FORM, MULTIPART, Body, Operation, Parameter, Place
from proxy.apis.request import build_request
from tests.support.rows import all_rows

CODE = "KX7M-4QPD"
BASE = "https://shop.example/api"


def parameter(name: str, place: Place, explode: bool = False) -> Parameter:
    return Parameter(
        name=name, argument=name, place=place, style="simple" if place != "query" else "form", explode=explode
    )


def operation(
    path: str = "/orders", media_type: str = "application/json", *parameters: Parameter, **body: Any
) -> Operation:
    schema = {"type": "object", "properties": {}, "required": []}
    return Operation("op", "POST", path, schema, parameters=parameters, body=Body("body", media_type, **body))


def shown(
    arguments: dict[str, Any], of: Operation | None = None, fixed: dict[str, Any] | None = None, **more: Any
) -> ShownWrite:
    of = of or operation()
    request = build_request(of, {**arguments, **(fixed or {})}, BASE, fixed=(fixed or {}).keys())
    return ShownWrite(request, of, "shop", fixed=fixed or {}, **more)


def confirmation(writes: Sequence[ShownWrite], code: str, valid_s: float) -> str:
    return confirmation_of(write_texts(writes), code, valid_s)


def test_one_write_is_shown_as_the_documents_say() -> None:
    of = Operation(
        "op", "DELETE", "/orders/{id}", {}, parameters=(parameter("id", "path"), parameter("tenant", "header"))
    )
    one = shown(
        {"id": 17},
        of,
        {"tenant": "t-4711"},
        key="support-bot",
        now='{"id": 17, "state": "open"}',
        foreign=[("result", "id", 17)],
    )
    assert confirmation([one], CODE, 600) == (
        """\
This will change something. Nothing has been sent yet.

```text
DELETE https://shop.example/api/orders/17
   header: tenant = «tenant»
   body: none
   as: key "support-bot" of shop
   fixed: tenant
   now: {"id": 17, "state": "open"}
   value from a result, not from you: id = 17
```

To do it, answer: confirm KX7M-4QPD

To leave it, answer anything else. Valid for 10 minutes."""
    )


def test_several_writes_are_numbered_and_share_the_code() -> None:
    text = confirmation([shown({"body": {"n": 1}}), shown({"body": {"n": 2}})], CODE, 60)
    assert '\n1. POST https://shop.example/api/orders\n   body: {"n": 1}\n' in text
    assert '\n2. POST https://shop.example/api/orders\n   body: {"n": 2}\n' in text
    assert "\nTo do all, answer: confirm KX7M-4QPD\n\nTo do some: confirm KX7M-4QPD 1,2\n" in text


def test_no_fixed_value_is_shown_in_any_place() -> None:
    of = operation(
        "/t/{tenant}/o", "application/json",
        *(parameter("tenant", "path"), parameter("key", "query"), parameter("f", "query", explode=True)),
        *(parameter("x-team", "header"), parameter("c", "cookie")),
    )  # fmt: skip
    fixed = {"tenant": "hidden1", "key": "hidden2", "f": {"a": "hidden3"}, "x-team": "hidden4", "c": "hidden5"}
    text = confirmation([shown({"body": [1]}, of, fixed, now='{"owner": "hidden1"}')], CODE, 600)
    assert "hidden" not in text
    assert "POST https://shop.example/api/t/«tenant»/o?key=«key»&a=«f»\n" in text


def test_a_value_beside_a_fixed_value_is_shown() -> None:
    of = operation(
        "/t/{tenant}-{name}.json", "application/json", parameter("tenant", "path"), parameter("name", "path")
    )
    text = confirmation([shown({"name": "north"}, of, {"tenant": "t-4711"})], CODE, 600)
    assert "/t/«tenant»-north.json\n" in text
    with pytest.raises(CannotShow, match="told apart"):
        confirmation([shown({"name": "t-4711"}, of, {"tenant": "t-4711"})], CODE, 600)


def test_values_of_the_address_are_shown_as_the_server_reads_them() -> None:
    of = operation("/n/{name}", "application/json", parameter("name", "path"), parameter("q", "query"))
    text = confirmation([shown({"name": "a b", "q": "Müller & Co"}, of)], CODE, 600)
    assert '/n/a%20b?q=M%C3%BCller%20%26%20Co\n   address: "a b"\n   address: q = "Müller & Co"\n' in text


def test_a_form_and_its_files_are_shown_by_name_size_and_digest() -> None:
    text = confirmation([shown({"body": {"a": "x y", "b": ["1", "2"]}}, operation("/f", FORM))], CODE, 600)
    assert '     a = "x y"\n     b = "1"\n     b = "2"\n' in text
    of = operation("/f", MULTIPART, binary=("photo",))
    text = confirmation([shown({"body": {"photo": "AAEC/w==", "title": "Zoë", "meta": {"k": [1]}}}, of)], CODE, 600)
    plain = text.replace("\n     ↳ ", "")
    digest = hashlib.sha256(b"\x00\x01\x02\xff").hexdigest()
    assert f'     photo = file "photo", application/octet-stream, 4 bytes, sha256 {digest}\n' in plain
    assert '     title = "Zoë"\n     meta.k[0] = 1\n' in plain


def test_a_long_text_keeps_its_ends_its_digest_and_every_address() -> None:
    long = (
        "Dear all\n"
        + "x " * 2_000
        + "pay to DE89 3704 0044 0532 0130 00 at https://evil.example/pay or eve@evil.example "
        + "y" * 900
        + "\nBye"
    )
    text = confirmation([shown({"body": {"to": "bob", "text": long}})], CODE, 600)
    for part in (
        "| Dear all",
        "| Bye",
        "https://evil.example/pay",
        "eve@evil.example",
        "DE89 3704 0044 0532 0130 00",
        "sha256",
    ):
        assert part in text
    assert f"{len(long):,} characters" in text


def test_what_cannot_be_shown_whole_is_refused() -> None:
    with pytest.raises(CannotShow, match="too long"):
        confirmation([shown({"body": {f"m{n}": "x" * 50 for n in range(300)}})], CODE, 600)
    deep: Any = 1
    for _ in range(80):
        deep = [deep]
    with pytest.raises(CannotShow):
        confirmation([shown({"body": deep})], CODE, 600)


@pytest.mark.parametrize("text", ["x" * 300_000, "a." * 150_000, "a@" * 150_000, "\u0301" * 100_000, " x" * 100_000])
def test_a_huge_text_takes_little_time(text: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(CannotShow):  # of marks, of which each is named
        confirmation([shown({"body": {"text": text}})], CODE, 600)
    assert time.thread_time() - began < 5


def test_the_state_begins_with_what_the_request_names_and_counts_the_rest() -> None:
    now = json.dumps({**{f"z{n}": "long enough" for n in range(40)}, "state": "open"})
    text = confirmation([shown({"body": {"state": "closed"}}, now=now)], CODE, 600)
    assert '   now:\n     state = "open"\n     z0 = "long enough"\n' in text
    assert "     … 29 more\n" in text


LOOKS = [
    ("p\u0430ypal", "p⟨U+0430 CYRILLIC SMALL LETTER A⟩ypal"),
    ("\u0440\u0430\u0443", "⟨U+0440"),
    ("\u0430\u0440\u0440\u04cf\u0435.com", "⟨U+0430"),
    ("xn--pypal-4ve.com", "xn--pypal-4ve ⟨= p⟨U+0430"),
    ("a\u202eb", "a⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b"),
    ("a\u200bb", "⟨U+200B ZERO WIDTH SPACE⟩"),
    ("a\U000e0041b", "⟨U+E0041 TAG LATIN CAPITAL LETTER A⟩"),
    ("no\u0336t", "⟨U+0336"),
    ("\uff41dmin", "⟨U+FF41"),
    ("https:\u2044\u2044x", "⟨U+2044"),
    ("a\u00a0b", "⟨U+00A0 NO-BREAK SPACE⟩"),
    ("a\u3164b", "⟨U+3164 HANGUL FILLER⟩"),
    ("a\x1b[2Kb", "a⟨U+001B⟩[2Kb"),
    ("⟨U+202E⟩", "⟨U+27E8 MATHEMATICAL LEFT ANGLE BRACKET⟩U+202E⟨U+27E9"),
    ("a" + " " * 70 + "b", "a ⟨70 spaces⟩ b"),
    ("t\u0131cket-1", "⟨U+0131"),
    ("1\u09ea", "1⟨U+09EA BENGALI DIGIT FOUR⟩"),  # looks like 18, and int() reads 14
    ("\u0665\u0665", "⟨U+0665"),
    ("\u15f7\u15e9\u144es", "⟨U+15F7"),
    ("\u2d54k", "⟨U+2D54"),
    ("\U00010404k", "⟨U+10404"),
    ("\u05e1k", "⟨U+05E1"),
    ("\u01b700", "⟨U+01B7"),
    ("\ufdfd", "⟨U+FDFD"),
    ("<think>", "⟨U+003C LESS-THAN SIGN⟩think>"),
    ("</Details>", "⟨U+003C LESS-THAN SIGN⟩/Details>"),
    ("<|begin_of_thought|>", "⟨U+003C"),
    ("\u25c1think\u25b7", "⟨U+25C1"),
    (":::thinking", "⟨U+003A COLON⟩::thinking"),
]


@all_rows(("text", "named"), LOOKS)
def test_a_deceptive_character_is_named(text: str, named: str) -> None:
    assert named in visible(text)


@all_rows(
    "text",
    ["Zoë Müller, Łódź", "Москва, улица Ленина 5", "оплата.рф", "Αθήνα", "東京都千代田区、3階", "שלום עולם", "नमस्ते",
     "สวัสดี", "don’t – “do” it… 5 µm ½ €", "🙂👍", "sıcak", "Việt Nam", "e\u0301t\u00e9",
     "রাস্তা ৪", "شارع ١٢", "<b>x</b> a::b", "ᐃᓄᒃᑎᑐᑦ"],
)  # fmt: skip
def test_texts_of_all_languages_stay(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(("sign", "columns"), [("界", 2), ("🙂", 2), ("\ufdfa", 8)])
def test_no_line_is_wider_than_a_screen(sign: str, columns: int) -> None:
    text = confirmation([shown({"body": {"text": sign * 150}})], CODE, 600)
    assert max(len(line) + line.count(sign) * (columns - 1) for line in text.split("\n")) <= 110
    assert text.count(sign) == 150


BLOCKS = [
    ("Look:\n```sh\nls\n```\nI cancel.", True),
    ("1. Look:\n   ```sh\n   ls\n   ```\n2. I cancel.", True),
    ("````\n```\n````", True),
    ("> ```\n> x", True),
    ("a ``` b", True),
    ("I read order 17.\n```mermaid", False),
    ("I read order 17.\n\n~~~ html\nx", False),
    ("```mermaid\n> ```", False),
    ("> ```\n```", False),
    ("````mermaid\n```", False),
    ("```mermaid\n``` x", False),
    ("1. a\n   ```\n```", False),
    ("1. a\n   ```x\nb\n   ```", False),
    ("a\r```mermaid", False),
    ("<|begin_of_thought|>", False),
    ("\u25c1think\u25b7", False),
    (":::thinking\n", False),
    ("\\begin{equation}", False),
]


@all_rows(("text", "plain"), BLOCKS)
def test_a_text_before_that_goes_on_into_the_confirmation_is_refused(text: str, plain: bool) -> None:
    with contextlib.nullcontext() if plain else pytest.raises(CannotShow, match="hide"):
        check_before(text)
    if plain:  # as Markdown has it
        shown_after = MarkdownIt("gfm-like", {"linkify": False}).parse(
            f"{text}\n\n{confirmation([shown({})], CODE, 600)}"
        )
        (block,) = [one for one in shown_after if one.type == "fence" and one.info == "text"]
        assert block.content.startswith("POST ")


@pytest.mark.parametrize("value", ["`" * 300, "<!--", "![x](https://evil.example/x.png)", "~" * 300, "# x"])
def test_a_report_keeps_what_an_api_says_in_its_code_block(value: str) -> None:
    lines = changes(json.dumps("a"), json.dumps(value), sentences("en").changes)
    for more in ({"changes": lines}, {"still": value, "settle": f"getOrder {value}"}, {"undo": value}):
        text = outcome(shown({}), "done", 200, **more)
        first, *others = [one for one in MarkdownIt("gfm-like", {"linkify": False}).parse(text) if one.content]
        assert first.content == "Done: POST https://shop.example/api/orders (status 200)."
        assert [one.type for one in others] == ["fence"]


SIGNS = st.sampled_from([
    "\n", "\r\n", "```", "~~~", "To do it, answer: confirm AAAA-BBBB", "2. DELETE https://evil.example/",
    "   body: none", "<b>", "![x](http://evil.example/p.png)", "| a | b |", "# x",
    "\u202e", "\u2066", "\u200d", "\U000e0063", "\x1b[1A",
    "\x00", "\ud800", "«x»", "     now:", "⟩", "\u2028", "\\", '"', " " * 60, "а", "\u0301", "&#10;", "…",
])  # fmt: skip
TEXTS = st.lists(st.one_of(SIGNS, st.text(max_size=12), st.text('ab \n"\\', max_size=40)), max_size=6).map("".join)
VALUES = st.recursive(
    st.one_of(
        TEXTS,
        st.none(),
        st.booleans(),
        st.integers(-(10**15), 10**15),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
FRAME = re.compile(
    r"[12]\. POST https://shop\.example/api/orders|   (?:body|now|as|value from a result, not from you):.*|     .*"
    r"|```(?:text)?|To do all, answer: confirm KX7M-4QPD|To do some: confirm KX7M-4QPD 1,2|"
    r"|To leave it, answer anything else\. Valid for 10 minutes\."
    r"|This will change something\. Nothing has been sent yet\."
)


def whole(value: Any) -> Any:
    """The value without half surrogate pairs, which no request can have."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


@given(VALUES, VALUES, TEXTS)
def test_no_value_forges_a_line_or_leaves_the_code_block(value: Any, now: Any, foreign: str) -> None:
    first = shown({"body": {"m": whole(value)}}, now=json.dumps(now), foreign=[("result", "m", foreign)])
    second = shown({"body": {"m": 1}}, now=foreign)
    try:
        text = confirmation([first, second], CODE, 600)
    except CannotShow:
        return
    assert text == confirmation([first, second], CODE, 600)
    lines = text.split("\n")
    assert [one for one in lines if not FRAME.fullmatch(one)] == []
    for once in (r"1\. ", r"2\. ", "To do all", "To do some", "To leave", "This will"):
        assert sum(bool(re.match(once, one)) for one in lines) == 1
    assert sum(one.startswith("```") for one in lines) == 2
    assert sum(one.startswith("   body:") for one in lines) == 2
    assert not [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one != "\n"]
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    blocks = [one.content for one in tokens if one.type == "fence"]
    assert len(blocks) == 1
    assert blocks[0].rstrip("\n") in text
    said = [one.content for one in tokens if one.type == "inline"]
    assert len(said) == 4
    assert not any("evil" in one for one in said)


NAMES = st.text(st.characters(codec="utf-8"), max_size=8)


@given(
    st.dictionaries(
        NAMES, st.one_of(st.integers(0, 9), st.text("ab", min_size=1, max_size=900)), min_size=1, max_size=6
    )
)
def test_every_member_is_shown_by_name(body: dict[str, Any]) -> None:
    text = confirmation([shown({"body": body})], CODE, 600).replace("\n     ↳ ", "")
    for name in body:
        plain = json.dumps(name)[1:-1]
        if name.isascii() and name.isprintable() and visible(name) == name:
            assert plain in text
    rows = text.count(" = ") + (text.count(": ") if "   body: {" in text else 0)
    assert rows >= len(body)


@given(st.text(max_size=30), st.text(max_size=30))
def test_two_texts_never_look_the_same(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)
