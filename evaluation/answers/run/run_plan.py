"""A planned run: a new one, or the rest of an interrupted one with the same questions and variants."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from evaluation.answers.client.budget import Budget, check_ceiling, check_request_fits, spend
from evaluation.answers.records import BenchError, Leak, Question, RequestKey, Variant
from evaluation.answers.run import whole_collection
from evaluation.answers.run.estimate import about_operations, estimates, largest, table, unknown_caps, unknown_prices
from evaluation.answers.run.runner import RunOptions, WholeText, body_of, order_of
from evaluation.answers.run_folder import Run, RunManifest, differences
from proxy.access.prices import Size
from proxy.dialects.quoting import Template


class RunPlan:
    """A run: questions and variants, finished requests, remaining requests."""

    def __init__(self, folder: Path, manifest: RunManifest, questions: Sequence[Question]) -> None:
        """manifest: for a new run. Raises BenchError: the folder has another run."""
        self.folder = folder
        self.questions = questions
        self.left_out: Mapping[str, str] = {}  # variant name -> why it cannot run
        self._asked = manifest
        self._done: Set[RequestKey] = set()
        self._before = Run.read_if_exists(folder)
        if self._before is not None:
            self._done, self.left_out = self._before.done(), self._before.manifest.left_out
            if differs := differences(self._before, replace(manifest, variants=self.variants), questions):
                text = f"{folder} holds another run ({'; '.join(differs)}): name another folder with --run"
                raise BenchError(text)
            self.questions = self._before.questions

    @property
    def variants(self) -> list[Variant]:
        """Variants that can run."""
        return [variant for variant in self._asked.variants if variant.name not in self.left_out]

    @property
    def goes_on(self) -> bool:
        """Whether the folder already holds part of this run."""
        return self._before is not None

    @property
    def finished(self) -> bool:
        return self._before is not None and not self._left()

    def _left(self) -> list[RequestKey]:
        order = order_of(self.questions, self.variants, self._asked.repeats, self._asked.seed)
        return [asked for asked in order if asked not in self._done]

    async def wholes(
        self, client: httpx.AsyncClient, template: Template, default: Sequence[str], size_of: Callable[[str], Size]
    ) -> dict[str, WholeText]:
        """The whole collection's text for each variant of mode `whole`, by variant name.

        A continued run uses the texts in its folder. Variants whose text does not fit are left out from now on.
        default: collections for variants that name none. Raises BenchError if one cannot be read, or if no variant
        remains.
        """
        found: dict[str, WholeText] = {}
        texts: dict[tuple[str, ...], str] = {}
        left_out = dict(self.left_out)
        for variant in (variant for variant in self.variants if variant.mode == "whole"):
            names = tuple(variant.collections or default)
            file = Run.whole_text_path(self.folder, names)
            if names not in texts:
                kept = self._before is not None and file.exists()
                texts[names] = (
                    file.read_text("utf-8") if kept else await whole_collection.text_of(client, names, template)
                )
            if self._before is None and (why := self._misfit(variant, texts[names], size_of(variant.model))):
                left_out[variant.name] = why
            else:
                found[variant.name] = WholeText(texts[names], file.name)
        self.left_out = left_out
        if not self.variants:
            raise BenchError("; ".join(f"{name} is left out: {why}" for name, why in left_out.items()))
        return found

    def _misfit(self, variant: Variant, text: str, size: Size) -> str:
        bodies = (body_of(question, variant, None, usage=True) for question in self.questions)
        return next((why for body in bodies if (why := whole_collection.misfit(body, text, size, variant))), "")

    def budget(self, options: RunOptions) -> Budget:
        """The budget. Raises BenchError if its ceiling cannot be enforced, or is below one remaining request."""
        usd, tokens = self._asked.ceiling_usd, self._asked.ceiling_tokens
        unpriced, uncapped = unknown_prices(self.variants, options), unknown_caps(self.variants, options)
        check_ceiling(usd, tokens, unpriced=unpriced, uncapped=uncapped)
        ceiling = usd is not None or tokens is not None
        if ceiling and (most := largest(self._left(), self.questions, self.variants, options)) is not None:
            check_request_fits(usd, tokens, *most)
        return Budget(usd, tokens)

    def describe(self, options: RunOptions) -> str:
        """Remaining requests and estimated cost, as lines of text."""
        left = self._left()
        rows = estimates(left, self.questions, self.variants, options)
        lines = [table(rows), *filter(None, [about_operations(rows, options)])]
        if models := unknown_prices(self.variants, options):
            lines.append(f"the price of {', '.join(models)} is not known (--price MODEL=IN,OUT)")
        if self._before is not None:
            used = spend(self._before, options.price_of)
            lines.append(f"{self.folder} goes on: {len(left)} requests are left")
            lines += used.warnings
        return "\n".join(lines)

    def run(
        self, wholes: Mapping[str, WholeText], gateway: Mapping[str, Any], leaked: Mapping[str, Leak] | None = None
    ) -> Run:
        """The run's folder, newly made, or with today's ceilings. Raises BenchError, OSError."""
        if self._before is None:
            manifest = replace(
                self._asked, variants=self.variants, left_out=self.left_out, gateway=gateway, leaked=leaked or {}
            )
            run = Run.create(self.folder, manifest, self.questions)
        else:
            usd, tokens = self._asked.ceiling_usd, self._asked.ceiling_tokens
            run = replace(self._before, manifest=replace(self._before.manifest, ceiling_usd=usd, ceiling_tokens=tokens))
            run.write_manifest()
        for one in wholes.values():
            run.save_text(one.file, one.text)
        return run
