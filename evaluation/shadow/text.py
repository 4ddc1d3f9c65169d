"""A report of shadow comparisons as tables, or one comparison as a page of text, for a terminal or as Markdown."""

from evaluation.answers.scoring.costs import change_form
from evaluation.shadow.summary import RAG, RAW, ComparisonGroup, ShadowReport
from evaluation.stats.significance import interval
from evaluation.text_tables import NONE, first_of, table
from proxy.observe.shadow.comparison import Comparison, Side

_WORDS = {"undecided": "no verdict", "depends": "no verdict, it depends on the failures"}
_LIFT = ("judged", "preference [95 %]", "helped", "unchanged", "harmed", "verdict")
_ANSWERS = ("made", "both answered", "only with passages", "only raw", "refusals raw", "with", "difference [95 %]")
_COSTS = {"first_ms": "first token, ms", "total_ms": "in all, ms", "prompt": "tokens in", "completion": "tokens out",
          "cost_usd": "dollars"}  # fmt: skip
_MOST_NAMED = 10


def text(report: ShadowReport, *, markdown: bool) -> str:
    """Lift and harm, then extra cost, then how many answers."""
    whole = report.groups[0]
    costs_below = _costs_below(report, whole)
    tables = [
        ("Lift and harm", _LIFT, _lift, _lift_below(report, whole)),
        ("What a chat with passages takes more than one without [95 %]", _COSTS.values(), _costs, costs_below),
        (
            "Answers",
            _ANSWERS,
            _answers,
            ["a refusal is recognised by words; whether the refusal is right is not checked"],
        ),
    ]
    return "\n".join(
        table(
            title,
            ["comparisons of", *head],
            [[_title(group), *row(group)] for group in report.groups],
            below,
            markdown=markdown,
        )
        for title, head, row, below in tables
    )


def comparison_text(comparison: Comparison, key: str) -> str:
    """One comparison: question and both answers."""
    asked = [f"{turn.role}: {turn.text}" for turn in comparison.turns]
    said = [f"{row['model']}, order {row['order']}: {row['score']} ({row['reason']})" for row in comparison.judged]
    parts = "\n\n".join(
        [
            f"{comparison.id}: {comparison.model}, {', '.join(comparison.collections)}, {key or 'no key'}, "
            f"{'asked for' if comparison.asked else 'drawn'}",
            *asked,
            _side(RAG, comparison.rag),
            f"sources: {', '.join(comparison.sources)}",
            _side(RAW, comparison.raw),
            *(["judged, 1 for the answer with passages:\n" + "\n".join(said)] if said else []),
        ]
    )
    return _harmless(parts)


def _side(name: str, side: Side) -> str:
    times = [
        f"{what} {ms:,.0f} ms" for what, ms in (("first", side.first_ms), ("in all", side.total_ms)) if ms is not None
    ]
    tokens = f"{'about ' if side.tokens.estimated else ''}{side.tokens.prompt} + {side.tokens.completion} tokens"
    money = NONE if side.cost_usd is None else f"${side.cost_usd:.6f}"
    return f"--- {name}: {', '.join([*times, tokens, money])}\n{side.error or side.answer or '(no text)'}"


def _lift(group: ComparisonGroup) -> list[str]:
    found = group.preference
    if found is None:
        return ["0", *[NONE] * 4, "no verdict"]
    counts = (str(len(each)) for each in (found.helped, found.unchanged, found.harmed))
    return [str(found.change.questions), interval(found.change, "+z.2f"), *counts, _WORDS.get(found.word, found.word)]


def _costs(group: ComparisonGroup) -> list[str]:
    return [
        NONE if (change := group.more.get(name)) is None else interval(change, change_form(name)) for name in _COSTS
    ]


def _answers(group: ComparisonGroup) -> list[str]:
    counts = [str(each) for each in (group.comparisons, group.both, group.only_rag, group.only_raw)]
    found = group.refusals
    if found is None:
        return [*counts, *[NONE] * 3]
    return [*counts, f"{found.before:.0%}", f"{found.after:.0%}", interval(found.change, "+z.2f")]


def _lift_below(report: ShadowReport, whole: ComparisonGroup) -> list[str]:
    lines = [f"{report.unreadable} replies of the judge could not be read"] if report.unreadable else []
    if whole.preference is None:
        why = "no pair was judged in both orders" if report.unreadable else "no model has judged these answers"
        return [*lines, f"no verdict: {why} (ragway bench live --model MODEL)"]
    if whole.both > report.judged:
        lines.append(f"{whole.both - report.judged} of {whole.both} pairs are not judged, or not in both orders")
    lines.append(f"{report.judge} judged {report.judged} pairs: {whole.preference.sentence()}")
    if report.swayed:
        lines.append(f"in {report.swayed} pairs the judge preferred otherwise in the other order")
    if whole.preference.harmed:  # the worst first, as ids for `ragway bench live ID`
        lines.append(f"harmed: {first_of(whole.preference.harmed, _MOST_NAMED)}")
    return [*lines, "by chance, the interval of one in twenty groups misses the truth"]


def _costs_below(report: ShadowReport, whole: ComparisonGroup) -> list[str]:
    lines = [f"the raw requests cost ${report.raw_usd:.4f}, this judge ${report.judge_usd:.4f}"]
    if report.unpriced:
        lines.append(f"without {report.unpriced} raw requests for models whose price is not known")
    if whole.estimated:
        lines.append(f"tokens of {whole.estimated} of {whole.both} comparisons are estimated")
    return lines


def _title(group: ComparisonGroup) -> str:
    return _harmless(f"{group.of} {group.name}".strip())


def _harmless(text: str) -> str:
    """Replace control characters: clients and models wrote the text, and a terminal would obey."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
