"""Right answers that the report names, because the rules cannot read."""

import pytest

from evaluation.answers.scoring.doubts import denies, repeats_passage

PASSAGE = " ".join(
    f"The service number {n} listens on port {5000 + n} of the host with the name h{n}." for n in range(9)
)


@pytest.mark.parametrize(
    "answer",
    [
        "The port is not 5123, it is 8080.",
        "Do not use 5123",
        "It isn't 5123.",
        "It never was 5123; use 8080.",
        "Der Port ist nicht 5123, sondern 8080.",
        "Le port n'est pas 5123.",
        "El puerto no es 5123.",
        "端口不是5123，而是8080。",
    ],
)
def test_a_denied_fact_is_seen(answer: str) -> None:
    assert denies(answer, ["5123"])


@pytest.mark.parametrize(
    "answer",
    [
        "The port is 5123.",
        "It is 5123, not 8080.",
        "Not the old one. The port is 5123.",
        "It is not 8080, it is 5123.",
        "The port is not 8080. Use 5123.",
        "Without TLS it is not 5123. With TLS it is 5123.",
        "",
    ],
)
def test_an_affirmed_fact_is_not_doubted(answer: str) -> None:
    assert not denies(answer, ["5123"])


def test_a_repeated_passage_is_seen_and_a_quoted_sentence_is_an_answer() -> None:
    assert repeats_passage(PASSAGE, [PASSAGE])
    assert repeats_passage(f"Here is what I found:\n{PASSAGE}\nI hope that helps.", ["another text", PASSAGE])
    assert not repeats_passage(PASSAGE.split(".")[0], [PASSAGE])
    assert not repeats_passage(" ".join(f"word{n}" for n in range(100)), [PASSAGE])
    assert not repeats_passage(PASSAGE, [])
