"""Runs made by hand: questions, and the replies of models whose truth is known, as a run's folder has them."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.answers.records import Question, Rag, Reply, ShownPassage, Variant
from evaluation.answers.run_folder import JsonLinesFile, Run, RunManifest
from proxy.dialects.replies import Tokens

RAW, DOCS = Variant("m raw", "m", "raw"), Variant("m rag docs", "m", "rag", ["docs"])
Model = Callable[[Question, Variant, random.Random], str]


def question(number: int) -> Question:
    """Its fact is a number that no model knows by itself; every third is tagged odd."""
    return Question(
        f"q{number:03}",
        [{"role": "user", "content": f"What is the port of service {number}?"}],
        reference=f"port {5000 + number}",
        must=[str(5000 + number)],
        must_not=["9999"],
        gold=[f"docs/{number}.md"],
        tags=["third" if number % 3 == 0 else "other"],
    )


def shown(of: Question) -> ShownPassage:
    """The passage that answers a question."""
    return ShownPassage(of.gold[0], f"Service <{of.id}>", f"Its port is {of.must[0]}.", f"d-{of.id}")


def only_with_the_passage(of: Question, variant: Variant, _: random.Random) -> str:
    return f"It is {of.must[0]} [1]." if variant.mode == "rag" else "I do not know."


def ignoring_the_passage(of: Question, _: Variant, __: random.Random) -> str:
    return f"It is {of.must[0]}." if int(of.id[1:]) % 2 else "It is 80."


def harmed_by_it(of: Question, variant: Variant, chance: random.Random) -> str:
    return "It is 9999." if variant.mode == "rag" and chance.random() < 0.5 else f"It is {of.must[0]}."


def by_chance(of: Question, _: Variant, chance: random.Random) -> str:
    return f"It is {of.must[0]}." if chance.random() < 0.5 else "It is 80."


def reply(of: Question, variant: Variant, answer: str | None, *, repeat: int = 0, error: str | None = None) -> Reply:
    """What came of asking; the variant with passages takes longer and costs more."""
    rag = variant.mode == "rag"
    told = Rag("augmented", "", f"rag-{of.id}", of.gold, [shown(of)], 50) if rag else Rag("off")
    return Reply(
        of.id,
        variant.name,
        repeat,
        1_700_000_000.0 + repeat,
        200 if error is None else 400,
        answer,
        "stop",
        error,
        told,
        Tokens(100 if rag else 50, 10),
        0.002 if rag else 0.001,
        300.0 if rag else 200.0,
        500.0,
        {"retrieval": 12.5} if rag else {},
        {"model": variant.model, "messages": of.messages},
        "{}",
    )


def replies(
    model: Model, *, questions: Sequence[Question], variants: Sequence[Variant], repeats: int = 1
) -> list[Reply]:
    """Every reply of a model."""
    chance = random.Random(7)
    return [
        reply(of, variant, model(of, variant, chance), repeat=repeat)
        for of in questions
        for variant in variants
        for repeat in range(repeats)
    ]


def manifest(variants: Sequence[Variant] = (RAW, DOCS), *, repeats: int = 1, name: str = "run-1") -> RunManifest:
    return RunManifest(
        id=name,
        created_s=1_700_000_000.0,
        questions_file="questions.jsonl",
        base_url=None,
        repeats=repeats,
        seed=0,
        variants=variants,
    )


def folder(path: Path, model: Model, *, count: int = 40, repeats: int = 1) -> Path:
    """A run's folder with every reply in it."""
    asked, variants = [question(number) for number in range(count)], (RAW, DOCS)
    run = Run.create(path, manifest(variants, repeats=repeats, name=path.name), asked)
    with JsonLinesFile(run.replies_path()) as file:
        for row in replies(model, questions=asked, variants=variants, repeats=repeats):
            file.append(row)
    return path
