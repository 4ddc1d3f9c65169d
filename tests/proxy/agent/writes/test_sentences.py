"""The gateway's sentences about writes: whole in every language, and in the language of the person."""

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.agent.writes.pending import SentBefore
from proxy.agent.writes.sentences import confirm_word, language_in, language_of, sentences
from proxy.agent.writes.shown import ShownWrite, confirmation, denial, outcome, write_texts
from proxy.apis.openapi.operation import Operation
from proxy.apis.request import build_request
from proxy.dialects.codes import code_line
from tests.support.rows import all_rows

LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl"]
OPERATION = Operation("op", "DELETE", "/orders/17", {})
WRITE = ShownWrite(
    build_request(OPERATION, {}, "https://shop.example"), OPERATION, "shop", sent_before=SentBefore(40, done=True)
)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_translation_has_the_same_blanks_and_other_words(language: str) -> None:
    english, other = _texts(sentences("en")), _texts(sentences(language))
    assert english.keys() == other.keys()
    for name, one in english.items():
        assert Counter(re.findall(r"\{\w+\}", one)) == Counter(re.findall(r"\{\w+\}", other[name])), name
        assert one.endswith(":") == other[name].endswith(":"), name
    same = {name for name in english if english[name] == other[name]}
    assert same <= {"header", "file", "bytes"}, "words that the language shares with English"


def _texts(of: Any, within: str = "") -> dict[str, str]:
    """Name -> text, of all sentences."""
    if isinstance(of, str):
        return {within: of}
    rows = of if isinstance(of, Mapping) else {row.name: getattr(of, row.name) for row in dataclasses.fields(of)}
    return {
        name: text for row, one in rows.items() for name, text in _texts(one, f"{within}.{row}".lstrip(".")).items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_shown_line_confirms(language: str) -> None:
    text = confirmation(write_texts([WRITE, WRITE], language), "KX7M-4QPD", 600, language)
    lines = [line.partition(confirm_word(language))[1:] for line in text.split("\n") if "KX7M-4QPD" in line]
    assert [code_line("".join(line)) for line in lines] == [("KX7M-4QPD", None), ("KX7M-4QPD", (1, 2))]


def test_a_language_without_sentences_is_english() -> None:
    assert write_texts([WRITE], "ja") == write_texts([WRITE])
    assert confirmation(["x"], "KX7M-4QPD", 600, "ja") == confirmation(["x"], "KX7M-4QPD", 600)


SAID = [
    ("en", "Please cancel my order 17"),
    ("en", "delete it"),
    ("en", "Cancel order 4711"),
    ("en", "confirm"),
    ("de", "Bitte storniere meine Bestellung 17"),
    ("de", "Lösche den Cluster test-7"),
    ("de", "Schicke das Paket an die neue Adresse und ändere die Rechnung."),
    ("fr", "Annule ma commande 17, s'il te plaît"),
    ("fr", "Supprime le cluster de test"),
    ("es", "Cancela mi pedido 17, por favor"),
    ("es", "Quiero cambiar la dirección de envío del pedido"),
    ("it", "Annulla il mio ordine 17, per favore"),
    ("it", "Vorrei cambiare l'indirizzo della spedizione"),
    ("pt", "Cancele o meu pedido 17, por favor"),
    ("pt", "Quero mudar o endereço de entrega do pedido"),
    ("nl", "Annuleer mijn bestelling 17 alstublieft"),
    ("nl", "Verwijder het cluster van de test"),
    ("en", "注文17をキャンセルしてください"),
    ("en", "Отмените мой заказ 17"),
    ("en", ""),
]


@all_rows(("language", "text"), SAID)
def test_the_language_of_a_short_request(language: str, text: str) -> None:
    assert language_of([text]) == language


@pytest.mark.parametrize(
    ("accept", "language"), [("de-AT,de;q=0.9,en;q=0.8", "de"), ("ja, fr;q=0.5", "fr"), ("ja", "en"), ("", "en")]
)
def test_the_language_that_a_header_asks_for(accept: str, language: str) -> None:
    assert language_in(accept) == language


def test_the_outcome_says_what_changed_and_what_is_not_known() -> None:
    text = outcome(WRITE, "done", 204, changes=["state: open → cancelled\u202e"], undo="createOrder")
    assert text == (
        "Done: DELETE https://shop.example/orders/17 (status 204).\n"
        "```text\n     state: open → cancelled⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩\n     It can be undone: createOrder\n```"
    )
    assert "getOrder" in outcome(WRITE, "unknown", 0, settle="getOrder")
    assert outcome(WRITE, "failed", 409) == "Not done: DELETE https://shop.example/orders/17 was refused (status 409)."
    assert outcome(WRITE, "failed", 0) == "Not done: DELETE https://shop.example/orders/17 was not sent."


def test_an_answer_that_proves_nothing_is_named() -> None:
    gone = outcome(WRITE, "unknown", 502)
    assert "no answer came" not in gone
    assert "the answer (status 502) does not say" in gone
    assert "no answer came" in outcome(WRITE, "unknown", 0)
    failed = outcome(WRITE, "failed", 500, unsure=True, settle="getOrder {}", still='{"state": "open"}')
    assert failed == (
        "Perhaps not done: the API failed (status 500) after it got DELETE https://shop.example/orders/17, which does "
        "not prove that nothing was done. It is not sent again.\n"
        '```text\n     getOrder {} still shows {"state": "open"}; it may still be done.\n```'
    )
    assert denial("expired", "de").startswith("Der Code ist nicht mehr gültig.")
