"""From a declaration to a source."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from retrieval.errors import Unreachable
from retrieval.ingest.sources.bucket import BucketSource, bucket_prefix
from retrieval.ingest.sources.folder import Folder, below
from retrieval.ingest.sources.git import GitSource, key_prefix
from retrieval.ingest.sources.source import Source
from retrieval.ingest.sources.web import WebSource, web_prefix
from retrieval.knowledge import Plan
from retrieval.records.sync import SourceKind, SourceSpec
from runtime.logs import printable


@contextlib.asynccontextmanager
async def opened(spec: SourceSpec, plan: Plan) -> AsyncIterator[Source]:
    """The source, as long as the context lasts. Raises Unreachable."""
    if spec.kind == "git":
        async with contextlib.aclosing(GitSource(spec, data=Path(plan.data), max_bytes=plan.max_file_bytes)) as source:
            yield source
        return
    if spec.kind in ("web", "sitemap"):
        async with contextlib.aclosing(WebSource(spec, max_bytes=plan.max_file_bytes)) as pages:
            yield pages
        return
    if spec.kind == "bucket":
        async with contextlib.aclosing(BucketSource(spec, max_bytes=plan.max_file_bytes)) as bucket:
            yield bucket
        return
    if missing := await asyncio.to_thread(_missing, spec.places):
        raise Unreachable(f"there is no {printable(missing)}")
    yield Folder(
        [Path(place) for place in spec.places],
        spec.exclude,
        max_bytes=plan.max_file_bytes,
        follow_links=plan.ingest.follow_links,
        not_below=spec.not_below,
    )


def _missing(places: Sequence[str]) -> str:
    return next((place for place in places if not os.path.lexists(place)), "")


def owner(kind: SourceKind, name: str, places: Sequence[str]) -> Callable[[str], bool]:
    """A function that says whether a catalog key is of this source."""
    if kind != "folder":
        prefix = {"git": key_prefix, "bucket": bucket_prefix}.get(kind, web_prefix)(name)
        return lambda key: key.startswith(prefix)
    roots = [os.path.realpath(place) for place in places]
    return lambda key: any(below(key, root) for root in roots)
