"""Languages: each is told by its own stop words, and decides what counts as one word."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.sections import Language
from retrieval.lexical.terms import DEFAULT, LANGUAGES, NONE, detect, document_vector, query_vector, words
from tests.support.rows import all_rows

TEXTS = {
    "ar": "يحافظ المخزن على الاتصالات مفتوحة حتى لا يضطر الطلب إلى الانتظار في قائمة",
    "de": "Der Drucker hält die Verbindung offen, damit eine Anfrage nicht auf ihn warten muss.",
    "el": "Ο εκτυπωτής κρατά τη σύνδεση ανοιχτή ώστε ένα αίτημα να μην περιμένει.",
    "en": "The printer keeps the connection open so that a request does not have to wait for it.",
    "es": "La impresora mantiene abierta la conexión para que una petición no tenga que esperar.",
    "fi": "Tulostin pitää yhteyden auki, jotta pyynnön ei tarvitse odottaa sitä, kun se tulee.",
    "fr": "L'imprimante garde la connexion ouverte pour qu'une requête n'ait pas à attendre.",
    "hu": "A nyomtató nyitva tartja a kapcsolatot, hogy egy kérésnek ne kelljen várnia.",
    "it": "La stampante tiene aperta la connessione in modo che una richiesta non debba attendere.",
    "ja": "プリンタは接続を開いたままにするので、リクエストは max_wait だけ待てばよい。",
    "ko": "프린터는 연결을 열어 두므로 요청이 기다릴 필요가 없습니다.",
    "nl": "De printer houdt de verbinding open zodat een verzoek niet op hem hoeft te wachten.",
    "pt": "A impressora mantém a conexão aberta para que um pedido não tenha de esperar.",
    "ru": "Принтер держит соединение открытым, чтобы запросу не приходилось его ждать.",
    "sv": "Skrivaren håller förbindelsen öppen så att en förfrågan inte behöver vänta på den.",
    "th": "เครื่องพิมพ์เปิดการเชื่อมต่อไว้เพื่อให้คำขอไม่ต้องรอ",
    "zh": "打印机保持连接打开，这样请求就不必等待 max_wait。",
}


@all_rows("language", TEXTS)
def test_tells_the_language_of_one_sentence(language: str) -> None:
    assert detect([TEXTS[language]]) == language


def test_most_texts_decide_and_a_draw_is_english() -> None:
    assert detect([TEXTS["de"], TEXTS["fr"], TEXTS["de"]]) == "de"
    assert detect([TEXTS["de"], TEXTS["en"]]) == "en"


@pytest.mark.parametrize("texts", [[], [""], ["mongosh --host localhost:27017 insertMany() 1.2.3"], ["0x1f", "…"]])
def test_what_cannot_be_told_is_english(texts: list[str]) -> None:
    assert detect(texts) == DEFAULT


def test_code_around_it_does_not_hide_chinese() -> None:
    assert detect(["client = MongoClient(host, port=27017)  # 连接数据库，端口是默认的"]) == "zh"


def test_every_language_is_a_setting_and_can_be_used() -> None:
    assert set(get_args(Language)) == {"auto", *LANGUAGES}
    for language in LANGUAGES:
        assert document_vector("A300 数据", language).indices == query_vector([("A300 数据", 1.0)], language).indices


def found(question: str, text: str, language: str) -> bool:
    return bool(set(query_vector([(question, 1.0)], language).indices) & set(document_vector(text, language).indices))


@all_rows(
    ("language", "question", "text"),
    [
        ("de", "Haus", "Die Häuser stehen leer"),
        ("de", "Verbindungen", "Eine Verbindung herstellen"),
        ("fr", "imprimante", "Les imprimantes sont fermées"),
        ("es", "conexiones", "La conexión se cierra"),
        ("ru", "соединения", "Соединение закрыто"),
        ("zh", "数据库", "如何连接数据库服务器"),
        ("zh", "连接超时", "设置连接的超时时间"),
        ("ja", "接続", "データベースへの接続に失敗しました"),
        ("ja", "データベース", "データベースへの接続"),
        ("ja", "データ", "データを消す"),  # half-width on one side, full-width on the other
        ("ko", "연결", "데이터베이스에 연결합니다"),
        ("th", "ฐานข้อมูล", "การเชื่อมต่อฐานข้อมูล"),
        ("en", "数据库", "The client of the 数据库 is called mongosh"),
    ],
)
def test_finds_inflected_words_and_words_without_spaces(language: str, question: str, text: str) -> None:
    assert found(question, text, language)


@pytest.mark.parametrize(
    ("language", "question", "text"),
    [
        ("zh", "数据库", "打印机没有纸"),
        ("ja", "接続", "印刷する紙がない"),
        ("th", "ฐานข้อมูล", "เครื่องพิมพ์ไม่มีกระดาษ"),
        ("de", "der die und nicht", "der Drucker und die Tinte"),
        ("fr", "le la les et", "les encres et le papier"),
    ],
)
def test_finds_neither_other_words_nor_stop_words(language: str, question: str, text: str) -> None:
    assert not found(question, text, language)


def test_none_keeps_every_word_as_it_is_written() -> None:
    assert found("the", "the house", NONE)
    assert not found("houses", "the house", NONE)


def test_a_character_alone_is_found_within_a_word_and_counts_less_than_the_word() -> None:
    one, two = query_vector([("猫", 1.0)], "ja"), query_vector([("黒猫", 1.0)], "ja")
    assert set(one.indices) < set(two.indices)
    assert sorted(two.values) == [0.5, 0.5, 1.0]
    assert set(one.indices) <= set(document_vector("黒猫がいる", "ja").indices)


def test_a_composed_and_a_decomposed_letter_are_one_word() -> None:
    assert words("café") == words("cafe\u0301")


@given(st.sampled_from(sorted(LANGUAGES)), st.text(max_size=60) | st.sampled_from(sorted(TEXTS.values())))
def test_the_same_terms_on_both_sides_in_every_language(language: str, text: str) -> None:
    terms = {int(word) for word in words(text, language)}
    assert terms == set(document_vector(text, language).indices) == set(query_vector([(text, 1.0)], language).indices)
