"""Copies say the same words; versions of one text differ in the word that somebody asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical.said import fingerprint
from retrieval.records.documents import Passage
from retrieval.records.search import Hit
from retrieval.search.pack import pack, pack_with_fates
from tests.support.rows import all_rows

RULES = (
    "The harbour office collects the mooring fee from every vessel longer than six metres that stays overnight. The "
    "fee is paid at the machine beside the fuel station before noon. {} Boats without a receipt are towed to the basin."
)
FAMILIES = {
    "years": [RULES.format(f"The fee for the season is {fee} crowns a night.") for fee in (110, 120, 150, 160)],
    "dates": [RULES.format(f"The rule holds from {date}.") for date in ("2021-03-01", "2021-04-01", "2022-03-01")],
    "models": [
        f"To reset the {model}, hold the button for {seconds} seconds until the lamp blinks, then close the lid."
        for model, seconds in (("KR-100", 5), ("KR-200", 5), ("KR-300", 12))
    ],
    "versions": [f"Since {v} the client retries a call three times and then gives up." for v in ("v1.2", "v1.3", "v2")],
    "names": [RULES.format(f"{name} signs the receipt.") for name in ("Ada Holm", "Ida Holm", "Ola Berg")],
    "negation": [RULES.format(f"Dogs are {what} in the lounge.") for what in ("allowed", "not allowed", "banned")],
    "a denial at the beginning": ["Dogs are allowed in the lounge.", "No dogs are allowed in the lounge."],
    "parties": [f"The {who} may end the contract with a notice of a month." for who in ("tenant", "landlord")],
    "units": [RULES.format(f"The quay is 12 {unit} long.") for unit in ("m", "ft", "cm")],
    "signs": [f"Store the glue at {t} °C, and no longer than a year." for t in ("5", "-5", "<5", ">5", "±5", ".5")],
    "prices": [RULES.format(f"A key costs {price}.") for price in ("$5", "€5", "5%", "5‰")],
    "languages of programs": [f"Write the handler in {name} and link it last." for name in ("C", "C++", "C#")],
    "boxes": [f"{a} Smoker\n{b} Driver\nSigned in Oslo" for a, b in (("[x]", "[ ]"), ("[ ]", "[x]"), ("[x]", "[x]"))],
    "rows": [f"| port | open |\n| --- | --- |\n| {port} | yes |" for port in (22, 80, 443)],
    "one word more": [RULES.format(""), RULES.format("Residents pay half.")],
    "German": [f"Hunde sind in der Halle {was} erlaubt, wenn sie an der Leine gehen." for was in ("", "nicht", "nie")],
    "Chinese": [f"住宅用户每月的电费为{fee}元，请在月底之前支付。" for fee in ("五十", "六十", "50", "60")],
    "Russian": [f"Собаки в зале {was} допускаются, если они на поводке." for was in ("", "не")],
    "Arabic": [f"يسمح للكلاب بدخول القاعة في {where} مع مقود." for where in ("السويد", "النرويج")],
    "Thai": [f"อนุญาตให้นำสุนัขเข้า{where}ได้ตลอดวัน" for where in ("ห้องพัก", "ห้องอาหาร")],
    "units that differ in case": [f"The laser has 5 {unit} of power." for unit in ("mW", "MW", "μW")],
    "options": [f"Then call it with `{option}` and -v at the end." for option in ("-f", "-F", "--f")],
    "feet and inches": [f"The shelf is {length} long." for length in ("12'", '12"', "12")],
    "raised digits": [f"There are {number} cells in it." for number in ("10⁵", "105", "10⁶")],
    "about": [f"It takes {about} minutes, and no key." for about in ("5", "~5", "~~5~~")],
    "paths of links": [f"Read [the prices](https://a.example/{part}/list.pdf) first." for part in (2023, 2024, "v2")],
    "columns": [f"| Smoker | yes | no |\n| --- | --- | --- |\n| Ada | {row} |" for row in ("x | ", " | x", " | ")],
    "pros and cons": [RULES.format("") + f"\n{sign} The pier is quiet." for sign in "+-"],
    "bounds": [RULES.format("") + f"\n{sign}5 kg are refused." for sign in ("> ", "< ", "")],
    "operators": [f"for row in rows:\n    count {sign} 1" for sign in ("+=", "-=", "==", "--")],
    "a list of rights": [f"The guest may:\n\n- view\n- {right}" for right in ("print", "edit", "share")],
    "on and off": [f"Heating in the winter\n\n{word}" for word in ("on", "off", "in")],
    "a list of names": [f"Dogs may go to\n\n{names}" for names in ("Oslo · Rome · Bonn", "Bern · Riga · Kiel")],
    "a list in a line": [RULES.format("") + f"\nAllowed: {c}" for c in ("red | green | blue", "grey | white | black")],
    "a date below": [RULES.format("") + f"\nStandgebühr 2023: {fee} Kronen" for fee in (110, 120)],
    "a stand": [RULES.format("") + f"\nStand {number}" for number in ("4.2", "4.3")],
    "an update": [RULES.format("") + f"\nUpdated fee from 2023: {fee} crowns" for fee in (110, 120)],
    "a total": [RULES.format("") + f"\nGenerated 2023: {power} MW" for power in (110, 120)],
    "goods": [RULES.format("") + f"\nExported 2019: {goods}" for goods in ("fish", "timber")],
    "a fee for copies": [RULES.format("") + f"\nCopyright fee 2023: {fee} crowns" for fee in (10, 20)],
}  # fmt: skip


def passage(text: str, *, title: str = "Rules", source: str = "a.md", headings: tuple[str, ...] = ()) -> Passage:
    return Passage(source, 1, 0, title, source, 0.0, headings, 0, len(text), text, 10)


def shown(*passages: Passage, question: str = "") -> list[Passage]:
    hits = [Hit(str(number), 1.0, one) for number, one in enumerate(passages)]
    return list(pack(hits, k=100, budget_tokens=10_000, question=question).passages)


@all_rows("family", FAMILIES)
def test_every_member_of_a_family_is_shown(family: str) -> None:
    members = [passage(text, source=f"{number}.md") for number, text in enumerate(FAMILIES[family])]
    assert shown(*members) == members
    assert shown(*reversed(members)) == members[::-1]


@all_rows("family", FAMILIES)
def test_every_member_of_a_family_is_a_document_of_its_own(family: str) -> None:
    assert len({fingerprint("", text) for text in FAMILIES[family]}) == len(FAMILIES[family])


@given(
    st.lists(st.sampled_from(["{} crowns", "model {}", "{}", "not {}", "{}.{}"]), min_size=1, max_size=3),
    st.lists(st.integers(0, 10**6) | st.sampled_from("Oslo Rome left right open never May".split()), min_size=2,
             max_size=8, unique_by=lambda value: str(value).lower()),
)  # fmt: skip
def test_a_template_filled_with_other_values_is_another_text(slots: list[str], values: list[object]) -> None:
    template = "The office opens at nine. " + " and ".join(slots) + " is what the notice says. It closes at noon."
    members = [passage(template.replace("{}", str(value)), source=f"{value}.md") for value in values]
    assert shown(*members) == members


@pytest.mark.parametrize(
    ("title", "headings"),
    [("Rules 2020", ()), ("Rules of Norway", ()), ("Rules", ("Norway",)), ("Rules", ("Sweden", "Version 2"))],
)
def test_another_title_or_heading_makes_another_text(title: str, headings: tuple[str, ...]) -> None:
    text = "There is no fee."
    assert len(shown(passage(text, headings=("Sweden",)), passage(text, title=title, headings=headings))) == 2


PAGE = (
    RULES.format("The fee for the season is 110 crowns a night.") + "\n\nDogs are *welcome* at the [pier](/pier.html)."
)
COPIES = {
    "the same page": PAGE,
    "other blanks": PAGE.replace(". ", ".\n\n").replace(" the ", "  the "),
    "other line ends": PAGE.replace(" of ", " of\r\n"),
    "no-break spaces": PAGE.replace(" a ", " a "),
    "soft hyphens": PAGE.replace("harbour", "har\u00adbour"),
    "other quotation marks and dashes": PAGE.replace("*", "“"),
    "other case": PAGE.upper(),
    "bold instead of italic": PAGE.replace("*", "**"),
    "bullets": "- " + PAGE.replace("\n\n", "\n\n- "),
    "a quotation": "> " + PAGE.replace("\n\n", "\n>\n> "),
    "a link to another host": PAGE.replace("](/", "](https://mirror.example/harbour/"),
    "a path of links above": "[Home](/) | [Docs](/docs) | [Blog](/blog)\n\n" + PAGE,
    "names of links above": "Home · Fleet · Prices · Team\n\n" + PAGE,
    "navigation in lines": "Skip to content\nHome\nSearch\nContact\n\n" + PAGE + "\n\nBack to top\nImprint",
    "navigation in German": "Startseite\nKontakt\n\n" + PAGE + "\n\nNach oben\nImpressum",
    "a date of print": PAGE + "\n\nPrinted on Tuesday, 12 March 2024, 10:12",
    "a German date of print": PAGE + "\n\nStand: 12.03.2024",
    "a date and a page": PAGE + "\n\nLast updated: 2024-03-12\nPage 1 of 3",
    "a copyright": PAGE + "\n\nCopyright © 2020-2024 Harbour office. All rights reserved.",
    **{
        stamp: f"{PAGE}\n\n{stamp}"
        for stamp in (
            "Last modified: Tuesday, 3 May 2024, 10:32 AM",
            "Last updated on May 3, 2024 by Ada Holm",
            "Gedruckt am 03.05.2024 um 10:32 Uhr",
            "Stand: Mai 2024",
            "Imprimé le 3 mai 2024",
            "Impreso el 3 de mayo de 2024",
            "更新时间：2024年5月3日",
            "打印日期：2024-05-03",
        )
    },
}


@all_rows("copy", COPIES)
def test_a_copy_is_left_out(copy: str) -> None:
    pages = [passage(PAGE), passage(COPIES[copy], source="mirror/a.md")]
    assert shown(*pages) == pages[:1]
    assert shown(*pages[::-1]) == [pages[1]]


def test_copies_differ_in_navigation_and_date_at_once() -> None:
    one = "Home | Fleet | Prices\n\n" + PAGE + "\n\nPrinted 2024-01-02"
    other = "Start · Ships · Tariffs · Staff\n\n" + PAGE + "\n\nPrinted 2025-06-07\nPage 3"
    assert len(shown(passage(one), passage(other))) == 1


def test_a_name_in_a_path_through_the_site_makes_another_text() -> None:
    pages = [passage(f"Travel | Lounges | {country}\n\n{PAGE}") for country in ("Sweden", "Norway")]
    assert shown(*pages) == pages


def test_a_word_of_the_question_counts_around_the_text_and_in_the_path() -> None:
    dated = [passage(PAGE + f"\n\nPrinted {year}-03-01") for year in (2023, 2024)]
    assert len(shown(*dated, question="Which fee was printed?")) == 1
    assert len(shown(*dated, question="What was printed on 2024-03-01?")) == 2
    placed = [passage(PAGE, source=f"{version}/rules.md") for version in ("v1", "v2")]
    assert len(shown(*placed, question="What is the fee?")) == 1
    assert len(shown(*placed, question="What is the fee in v2?")) == 2


def test_a_piece_that_a_better_passage_holds_in_whole_lines_is_a_copy() -> None:
    whole = passage("Bring a lead.\nDogs are allowed.\nPay at noon.")
    assert shown(whole, passage("Dogs are allowed.")) == [whole]
    assert len(shown(passage("It is not so that dogs are allowed."), passage("Dogs are allowed."))) == 2


@pytest.mark.parametrize("text", ["[x](//" + "a/" * 2800, "©" * 5600, "(c) " * 1400, "printed 2024 by " + "x " * 2800])
def test_a_line_without_an_end_takes_linear_time(text: str) -> None:
    """With quadratic or cubic time, this would take minutes."""
    assert len(shown(*[passage(f"{text}{number}") for number in range(3)])) == 3


def test_the_fate_of_a_copy_is_told() -> None:
    hits = [Hit("a", 1.0, passage(PAGE)), Hit("b", 1.0, passage(PAGE, source="b.md"))]
    assert pack_with_fates(hits, k=2, budget_tokens=100)[1] == {"a": "kept", "b": "duplicate"}


@pytest.mark.parametrize("text", ["", " ", "---", "| |", "Home", "Printed 2024", "\u200b", "# "])
def test_texts_without_a_sentence_are_compared_too(text: str) -> None:
    assert len(shown(passage(text), passage(text), passage("More."))) == 2
