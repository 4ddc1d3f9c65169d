"""Several questions in one message: what counts as one, and what their finds look like together."""

from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.search import Query, ScoredId
from retrieval.search.rewrite import interleave, split_questions, variants
from tests.support.rows import all_rows

PRICE, PORT = "What does a licence for the server cost?", "Which port does the server listen on?"


@all_rows(
    ("message", "parts"),
    [
        (f"{PRICE} {PORT}", (PRICE, PORT)),
        (f"{PRICE}\n\n{PORT}\n", (PRICE, PORT)),
        (f"I bought it today. {PRICE} By the way: {PORT}", (f"I bought it today. {PRICE}", f"By the way: {PORT}")),
        (f"{PRICE} {PORT} Thank you!", (PRICE, f"{PORT} Thank you!")),
        (f"{PRICE} {PORT} Why?", (PRICE, f"{PORT} Why?")),
        (f"What? No. {PRICE} Really? {PORT}", (f"What? No. {PRICE}", f"Really? {PORT}")),
        ("ライセンスはいくらですか？ポートは何番ですか？", ("ライセンスはいくらですか？", "ポートは何番ですか？")),
        ("كم تبلغ تكلفة الترخيص؟ ما هو المنفذ المستخدم؟", ("كم تبلغ تكلفة الترخيص؟", "ما هو المنفذ المستخدم؟")),
        (f"{PRICE} {PORT} {PRICE}", (PRICE, PORT, PRICE)),
        (PRICE, ()),
        ("", ()),
        ("???", ()),
        ("Why? How? When?", ()),
        (f"{PRICE} " * 4, ()),
        (f"Why does GET /search?q=zephyr&limit=10?page=2 fail? {'x' * 10}", ()),
        (f"{PRICE} {PORT} " + "x" * 2000, ()),
        ("Was kostet eine Lizenz; und welcher Port wird benutzt?", ()),
    ],
)
def test_a_message_is_split_where_questions_end_that_say_something(message: str, parts: tuple[str, ...]) -> None:
    assert split_questions(message) == parts


def test_each_part_leans_on_what_the_whole_leans_on() -> None:
    query = Query("t", (("q", 1.0), ("h", 0.1)), (("q", 1.0), ("h", 0.2)), "leans", ("a", "b"))
    whole, first, second = variants(query)
    assert whole is query
    assert (first.terms, first.vectors) == ((("a", 1.0), ("h", 0.1)), (("a", 1.0), ("h", 0.2)))
    assert second.terms[0] == ("b", 1.0)
    assert first.parts == second.parts == ()


def test_one_question_is_one_search() -> None:
    query = Query("t", (("q", 1.0),), (("q", 1.0),), "first question")
    assert variants(query) == [query]
    found = {"dense": [ScoredId("a", 0.5)], "bm25": []}
    assert interleave([found]) == found


def test_what_each_search_found_first_stands_first() -> None:
    whole = {"dense": [ScoredId("a", 0.9), ScoredId("b", 0.8), ScoredId("c", 0.1)], "bm25": [ScoredId("x", 3.0)]}
    part = {"dense": [ScoredId("d", 0.4), ScoredId("c", 0.3), ScoredId("a", 0.2)]}
    both = interleave([whole, part])
    assert [(one.id, one.score) for one in both["dense"]] == [("a", 0.9), ("d", 0.4), ("b", 0.8), ("c", 0.3)]
    assert both["bm25"] == [ScoredId("x", 3.0)]


LISTS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6).map(
    lambda ids: [ScoredId(id, 1.0 - rank / 10) for rank, id in enumerate(ids)]
)


@given(st.lists(st.fixed_dictionaries({"dense": LISTS, "bm25": LISTS}), min_size=1, max_size=4))
def test_nothing_found_is_lost_and_nothing_is_there_twice(found: list[dict[str, list[ScoredId]]]) -> None:
    both = interleave(found)
    for arm in ("dense", "bm25"):
        ids = [point.id for point in both[arm]]
        assert len(ids) == len(set(ids))
        assert set(ids) == {point.id for one in found for point in one[arm]}
        for one in found:  # the n-th of a list has at most n - 1 of each list before it
            for rank, point in enumerate(one[arm]):
                assert ids.index(point.id) < (rank + 1) * len(found)
