"""ragway calibrate: fit the probability of relevance to the collections, without judged questions."""

from dataclasses import asdict

import click

from cli.common import echo, echo_json, knowledge, progress_bar, with_settings
from config.sections import Settings
from retrieval.records.search import Calibration

_POOR_AUC = 0.9


@click.command("calibrate")
@click.option("--reset", is_flag=True, help="Delete the fitted curves: the built-in ones count again.")
@click.option("--json", "as_json", is_flag=True, help="Print the curves as a JSON list.")
@with_settings
async def command(reset: bool, as_json: bool, settings: Settings) -> int:
    """Fit the probability of relevance to your collections and embedder, without judged questions.

    For an embedder without a built-in curve, or if too many questions find nothing, or too many unrelated ones
    something. Sentences of the documents stand for questions with an answer, texts about anything for others. The curve
    is kept in the data folder, for each embedder; a running `ragway serve` uses it at once. Takes some 250 searches for
    each collection.
    """
    async with knowledge(settings) as documents:
        shown = progress_bar("calibrate", "questions")
        try:
            found = await documents.writing.calibrate(shown, reset=reset)
        finally:
            shown.close()
    if as_json:
        echo_json([asdict(one) for one in found])
        return 0
    if reset:
        echo("the built-in curves of relevance count again", err=True)
    for one in found:
        echo(_line(one))
        if one.auc < _POOR_AUC:
            echo(f"note: {one.embedder} tells the two kinds of texts badly apart: probabilities are rough", err=True)
    return 0


def _line(one: Calibration) -> str:
    """Curve, and what it was fitted to."""
    return (
        f"{one.embedder}: slope {one.slope:.2f} (before {one.slope_before:.2f}), offset {one.offset:.2f} "
        f"(before {one.offset_before:.2f}), AUC {one.auc:.3f}; {one.sentences} sentences of "
        f"{', '.join(one.collections)}, {one.unrelated} unrelated texts"
    )
