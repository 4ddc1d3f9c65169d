"""Questions without their names."""

from proxy.apis.library import without_names
from tests.support.rows import all_rows


@all_rows(
    ("question", "made"),
    [
        ("Who directed the film House of Cards?", "Who directed the film of"),
        ('Give me the cast of "the blue train".', "Give me the cast of ."),
        ("I'd like the posters that I've seen of Star Wars", "I'd like the posters that I've seen of"),
        ("How old is Ann? Which films has Bo made?", "How old is Which films has made?"),
        ("Mona Lisa", "Mona"),
        ("who plays in the film?", ""),
        ("Who plays in the film?", ""),
        ("Gibt es neue Krimis von Simenon?", ""),
        ("Zeige mir die Öffnungszeiten der Bibliothek", ""),
        ("tell me " + "all about the weather " * 10 + "in Rome", ""),
        ("谁导演了这部电影?", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_question_loses_its_names(question: str, made: str) -> None:
    assert without_names(question) == made
