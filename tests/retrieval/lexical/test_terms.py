"""Terms: the words that must be found stay findable, and every view of a text speaks of the same terms."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical.terms import (
    AVERAGE_WORDS,
    K1,
    B,
    document_vector,
    language_of,
    query_vector,
    query_vectors,
    visible,
    words,
)
from tests.support.rows import all_rows


def found_by(question: str, text: str) -> bool:
    return bool(set(query_vector([(question, 1.0)]).indices) & set(document_vector(text).indices))


@all_rows(
    ("question", "text"),
    [
        ("kotlin", "implementation('org.mongodb:mongodb-driver-kotlin-coroutine:5.5.1')"),
        ("coroutine", "mongodb-driver-kotlin-coroutine"),
        ("insertMany", "await collection.insertMany()"),
        ("insertmany()", "db.users.insertMany([])"),
        ("EADDRNOTAVAIL", "connect EADDRNOTAVAIL (99)"),
        ("error 99", "connect EADDRNOTAVAIL (99)"),
        ("max pool size", "max_pool_size"),
        ("maxPoolSize", "`maxPoolSize`: the most connections"),
        ("connecting", "How connections are made"),
        ("CAFÉ", "a café in Paris"),
        ("лошадь", "Лошадь бежит"),
        ("5.5.1", "version 5.5.1"),
        ("max-pool-size", "`maxPoolSize`: the most connections"),
    ],
)
def test_finds_identifiers_numbers_and_inflected_words(question: str, text: str) -> None:
    assert found_by(question, text)


def test_does_not_find_javascript_for_java() -> None:
    assert not found_by("Java", "JavaScript and TypeScript")


INVISIBLE = [
    *"\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202c\u2060\u2061\u2066\u2069\ufe00\ufe0e\ufe0f\ufeff",
    *"\u032b\u0483\U000e0020\U000e0100",  # accents without a composed letter, tags, variants
    *"\u115f\u3164\uffa0\u17b4\x08\x1f\x7f\x9f",  # fillers, controls
]


@pytest.mark.parametrize("sign", INVISIBLE, ids=ascii)
def test_an_invisible_character_ends_no_word(sign: str) -> None:
    written = f"the turp{sign}entine store"
    assert document_vector(written) == document_vector("the turpentine store")
    assert query_vector([(written, 1.0)]) == query_vector([("the turpentine store", 1.0)])


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("مُحَمَّد", "محمد"),
        ("كـــتاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("می‌خواهم", "میخواهم"),
        ("за́мок", "замок"),
        ("lock&shy;smith", "locksmith"),
        ("हिन्दी&shy;भाषा", "हिन्दीभाषा"),
        ("caf&eacute; &#220;bung", "café Übung"),
        ("ꦭꦏ꧀ꦱꦩ", "ꦭꦏꦱꦩ"),  # Javanese
        ("İstanbul İLİ", "istanbul ili"),
        ("i\u0307stanbul", "istanbul"),
    ],
)
def test_points_vowel_signs_and_references_end_no_word(written: str, plain: str) -> None:
    assert document_vector(written) == document_vector(plain)
    assert document_vector(written, "tr") == document_vector(plain, "tr")


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("**lock**smith", "locksmith"),
        ("un**believ**able", "unbelievable"),
        ("*lock*smith", "locksmith"),
        ("**l**ocksmith", "locksmith"),
        ("***lock***smith", "locksmith"),
        ("~~lock~~smith", "locksmith"),
        ("**lock\u00ad**smith", "locksmith"),
        ("`lock`smith", "locksmith"),
        ("lock`smith`", "locksmith"),
        ("ba*ker*", "baker"),
        ("bre*we*r", "brewer"),
        ("silver**smith and gold**smith", "silversmith goldsmith"),
        ("__tin__smith", "tinsmith"),
        ("lock_**smith**_", "locksmith"),
        (r"**lock**\ smith", "locksmith"),
        (r"pot\ *ter*", "potter"),
        ("lock<b>smith</b>", "locksmith"),
        ("lo<SPAN class='x'>ck</SPAN>smith", "locksmith"),
        ("<p>lock<wbr>smith</p>", "locksmith"),
        ("<b>**lock**</b>smith", "locksmith"),
        ("lock<!-- page 7 -->smith", "locksmith"),
        ("[lock](http://a.b)smith", "locksmith"),
        ("pave[ment](/y)", "pavement"),
        ("[**pla**](/x)sterer", "plasterer"),
        ('[lock](/a_(b) "T")smith', "locksmith"),
        ("[lock][1]smith", "locksmith"),
        ("**विश्व**विद्यालय", "विश्वविद्यालय"),
        ("**हिन्दी**भाषा", "हिन्दीभाषा"),
        ("**তথ্যে**র", "তথ্যের"),
        ("**தமிழ்**நாடு", "தமிழ்நாடு"),
        ("**น้ำ**มัน", "น้ำมัน"),
        ("**數據**庫", "數據庫"),
    ],
)
def test_a_word_with_markup_inside_is_found_whole(written: str, word: str) -> None:
    assert set(query_vector([(word, 1.0)]).indices) <= set(document_vector(f"see the {written}.").indices)


@pytest.mark.parametrize("tag", "a b bdo cite code dfn kbd q samp strike tt".split())
def test_a_tag_of_a_line_of_text_ends_no_word(tag: str) -> None:
    assert found_by("locksmith", f"<{tag}>lock</{tag}>smith")
    assert found_by("locksmith", f"lock<{tag}>smith</{tag}>")


@pytest.mark.parametrize("text", ["ที่พัก", "हिन्दी", "ສະບາຍດີ", "မြန်မာ", "ខ្មែរ", "が", "தமிழ்"])
def test_the_marks_of_scripts_that_need_them_stay(text: str) -> None:
    assert visible(text) == text


MARKED = ["a * b", "width*height", "x ** 2", "**bold** words", "2**3", "~/bin ~/lib", "`list`s of `maps`", "`a` `b`"]


CODE = [
    *("a*b", "2*x*y", "width*height*depth", "x**y**z", "snake_case", "user__name__contains", "f(x)[i](y)", "a[i][j]"),
    *("handlers[name](args)", "**kwargs", "*.py", "**/*.md", "src/**/test_*.py", "obj.width*obj.height", "if(a<b)c>d"),
    *(
        "a<b and c>d",
        "vector<int>items",
        "a<b>c",
        "one</td><td>two",
        "r&d; at&t",
        "Save & close;",
        "a[b](c)",
        "my\\ file",
    ),
]


@pytest.mark.parametrize("text", [*MARKED, *CODE])
def test_signs_around_whole_words_and_products_still_end_words(text: str) -> None:
    assert set(document_vector(re.sub(r"[^\w\s]", " ", text)).indices) <= set(document_vector(text).indices)


INSIDE = [
    "**{}**{}",
    "***{}***{}",
    "~~{}~~{}",
    "`{}`{}",
    "{}`{}`",
    "{}*{}*",
    "{}**{}**",
    "__{}__{}",
    "{}\\ *{}*",
    "{}[{}](/x)",
    "{}<i >{}",
    "{}<a id='x'/>{}",
    "[{}](){}",
    "{}&#xAD;{}",
]


@given(st.text("abßжλ", min_size=2), st.text("cdéшψ", min_size=2), st.sampled_from(INSIDE))
def test_no_markup_ends_a_word(begin: str, end: str, markup: str) -> None:
    found = set(document_vector(f"see {markup.format(begin, end)}.").indices)
    assert set(document_vector(f"see {begin}{end}.").indices) <= found


@given(st.lists(st.sampled_from(["ab", "ж", "x1", "हिन्दी", *"*_~`[]()<>/ \\."]), max_size=12).map("".join))
def test_markup_takes_no_word_away(text: str) -> None:
    apart = re.sub(r"[*_~`\[\]()<>/\\.]", " ", text)
    assert set(document_vector(apart).indices) <= set(document_vector(text).indices)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Where is IT?", "IT sits on the third floor."),
        ("Who runs the WHO?", "The WHO has its seat in Geneva."),
        ("Which foods have vitamin A?", "Carrots are rich in vitamin A."),
        ("Where is Will?", "Keys: please ask **Will**."),
        ("Is Plan A cheaper?", "We chose Plan A for the roof."),
        ("Who leads IT?", "_IT_, HR: second floor"),
        ("Call IT NOW please", "The IT HR team sits upstairs."),
        ("Is there a phone for IT?", "IT | +1 555 0100"),
    ],
)
def test_capitals_inside_a_sentence_mark_a_name(question: str, text: str) -> None:
    assert found_by(question, text)
    assert not found_by(question.lower(), text.lower()) or " A" in text


@pytest.mark.parametrize(
    "text",
    ["WHERE IS IT", "DO NOT. Open slowly.", "It is here. The end.", "What Is It About", "and I am", "A plan. A cat"],
)
def test_capitals_of_a_sentence_or_a_title_mark_no_name(text: str) -> None:
    assert set(document_vector(text).indices) <= set(document_vector(text.lower()).indices)


@pytest.mark.parametrize(
    ("language", "question", "text"),
    [
        ("ru", "Где пройти ТО?", "Станция ТО открыта утром"),
        ("fr", "Que dit l'ÉTÉ ?", "Le festival ÉTÉ commence"),
        ("el", "Τι είναι το ΤΟ;", "Το τμήμα ΤΟ άνοιξε"),
    ],
)
def test_capitals_of_any_alphabet_mark_a_name(language: str, question: str, text: str) -> None:
    found = set(query_vector([(question, 1.0)], language).indices)
    assert found & set(document_vector(text, language).indices)
    assert not found & set(document_vector(text.lower(), language).indices)


def test_leaves_stop_words_out() -> None:
    assert document_vector("the of and a").indices == ()
    assert query_vector([("how do I", 1.0)]).indices == query_vector([("", 1.0)]).indices == ()


@pytest.mark.parametrize("text", ["", " \n\t", "…—!?", "\x00"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    assert document_vector(text).indices == ()
    assert query_vector([(text, 1.0)]).indices == ()
    assert words(text) == []


def test_survives_half_a_surrogate_pair() -> None:
    assert query_vector([("pool \ud83d size", 1.0)]).indices == query_vector([("pool size", 1.0)]).indices


def test_document_values_follow_the_saturation_formula() -> None:
    """tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))."""
    vector = document_vector("cat cat dog " + "bird " * 7)
    expected = sorted(tf * (K1 + 1) / (tf + K1 * (1 - B + B * 10 / AVERAGE_WORDS)) for tf in (2, 1, 7))
    assert sorted(vector.values) == pytest.approx(expected, rel=1e-6)


def test_the_heaviest_piece_decides_a_words_weight_and_repeating_it_adds_nothing() -> None:
    once = query_vector([("pool", 1.0)])
    assert query_vector([("pool pool", 1.0), ("the pool", 0.3), ("pools", 0.5)]) == once
    assert query_vector([("pool", 0.25), ("pool", 0.5)]).values == (0.5,)


def test_pieces_without_a_positive_weight_are_left_out() -> None:
    assert query_vector([("pool", 0.0), ("size", -1.0), ("socket", float("nan")), ("timeout", 2.0)]) == query_vector(
        [("timeout", 2.0)]
    )


def test_no_pieces_make_an_empty_query() -> None:
    assert query_vector([]).indices == ()


TEXTS = st.lists(st.sampled_from("pool socket timeout the 99 café naïve x_y don't Übergröße 数据".split())).map(
    " ".join
)


@given(TEXTS | st.text(max_size=200))
def test_words_are_the_terms_of_both_vectors(text: str) -> None:
    terms = {int(word) for word in words(text)}
    assert terms == set(document_vector(text).indices) == set(query_vector([(text, 1.0)]).indices)


@given(st.dictionaries(st.sampled_from(["pool", "socket", "timeout", "driver"]), st.integers(1, 30)))
def test_words_keep_their_repetitions(counts: dict[str, int]) -> None:
    text = " ".join(" ".join([word] * n) for word, n in counts.items())
    expected = {words(word)[0]: n for word, n in counts.items()}
    assert Counter(words(text)) == expected


def test_words_count_exactly_in_a_huge_text() -> None:
    assert Counter(words("pool " * 100_000 + "socket")) == {words("pool")[0]: 100_000, words("socket")[0]: 1}


def test_vectors_do_not_depend_on_the_process() -> None:
    code = "from retrieval.lexical.terms import document_vector; print(document_vector('connection pool size 99'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(document_vector("connection pool size 99"))


def test_importing_it_does_not_load_the_engine() -> None:
    code = "import sys, retrieval.lexical.terms; sys.exit('qdrant_edge' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# What is searched for literally


def score(question: str, text: str) -> float:
    """BM25 without the rarity of the words."""
    query, document = query_vector([(question, 1.0)]), document_vector(text)
    values = dict(zip(document.indices, document.values, strict=True))
    return sum(weight * values.get(i, 0.0) for i, weight in zip(query.indices, query.values, strict=True))


@all_rows(
    ("question", "text", "near"),
    [
        ("EADDRNOTAVAIL (99)", "connect EADDRNOTAVAIL (99) failed", "99 times EADDRNOTAVAIL (98) failed"),
        ("fancy-printer-A300", "the fancy-printer-A300 jams", "the fancy-printer-A200 jams beside an A300 printer"),
        ("ERR_CONNECTION_RESET", "it says ERR_CONNECTION_RESET again", "reset the connection, then err on it again"),
        ("--max-old-space-size", "set --max-old-space-size first", "set the max size of the old space first"),
        ("version 1.2.3", "fixed in version 1.2.3", "fixed in version 3.2.1"),
        ("foo.bar()", "call foo.bar() once", "call bar.foo() once"),
        ("CVE-2026-1234", "see CVE-2026-1234 for more", "see CVE-1234-2026 for more"),
        ("ann.lee@example.com", "write to ann.lee@example.com now", "write to lee.ann@com.example now"),
        ("/etc/nginx/nginx.conf", "edit /etc/nginx/nginx.conf by hand", "edit /nginx/etc/conf.nginx by hand"),
        ("nginx.conf", "edit /etc/nginx/nginx.conf by hand", "edit /etc/conf/nginx/site by hand"),
        ("maxPoolSize", "max_pool_size is a number", "size of a pool, at max a number"),
        ("std::vector", "a std::vector grows", "a vector std grows"),
        ("C++", "written in C++ today", "written in C today"),
        ("C#", "written in C# today", "written in C++ today"),
        (".NET", "on .NET today", "on a net today"),
        ("--verbose", "run it --verbose again", "run it verbose again"),
    ],
)
def test_the_identifier_itself_beats_its_words_in_another_order(question: str, text: str, near: str) -> None:
    assert score(question, text) > score(question, near)


@pytest.mark.parametrize("text", ["a real-time hot-dog at AT&T", "Hello World", "It's 5 o'clock.", "(see below)"])
def test_ordinary_writing_has_words_alone(text: str) -> None:
    assert all(int(word) < 2**31 for word in words(text))


def test_an_identifier_makes_no_text_longer() -> None:
    before = dict(
        zip(*[document_vector("call foo bar baz").indices, document_vector("call foo bar baz").values], strict=True)
    )
    after = document_vector("call foo.bar baz")
    now = dict(zip(after.indices, after.values, strict=True))
    assert {index: now[index] for index in before} == before
    assert len(now) == len(before) + 1


@pytest.mark.parametrize(
    "text", ["a" * 50_000, "a-" * 25_000, "A" * 50_000, "aA" * 25_000, "(1" * 20_000, "@" * 50_000, "a*" * 25_000]
)
def test_hostile_runs_take_no_more_than_their_length(text: str) -> None:
    assert len(words(text)) <= 2 * len(text)


def test_a_tenant_is_searched_in_its_own_language() -> None:
    found = query_vectors(["a@1", "b@2.de", "c@7.de"], [("Häuser", 1.0)])
    assert found["a@1"] == query_vector([("Häuser", 1.0)], "en")
    assert found["b@2.de"] == found["c@7.de"] == query_vector([("Häuser", 1.0)], "de")
    assert found["a@1"] != found["b@2.de"]


def test_a_tenant_names_its_language() -> None:
    assert [language_of(name) for name in ("docs@1", "docs@12.de", "a.b@3", "a.b@3.zh", "odd")] == [
        "en",
        "de",
        "en",
        "zh",
        "en",
    ]
