"""Which tests `make test` leaves out, by folder or file. `make test-all` runs every test."""

# Path below tests/ -> marker of its tests ("" = none). The longest path counts.
TIERS = {
    "": "",
    "benchmarks": "peers",  # start servers of peer projects, and measure
    "wire": "system",  # start gateways with index process and workers, for each test or file
    "test_journeys.py": "system",  # a gateway under a profiler
    # Commands on real documents, started and stopped; evaluation/ and retrieval/ check the same in one process.
    "cli/test_actions.py": "system",
    "cli/test_calibrate.py": "system",
    "cli/test_doctor.py": "system",
    "cli/test_eval.py": "system",
    "cli/test_jsonl.py": "system",
    "cli/test_reindex.py": "system",
    "cli/test_long_commands.py": "system",
    "cli/test_replay.py": "system",
    "cli/test_sync.py": "system",
    "cli/test_tables.py": "system",
    "cli/test_writes.py": "system",
    "proxy/agent/writes/test_killed_gateways.py": "system",  # a hundred processes that are killed
    "proxy/agent/writes/test_write_machine.py": "system",  # a simulation
    "proxy/apis/test_library.py": "system",  # indexes, and processes that are killed
    "proxy/tables/test_hostile.py": "system",  # bombs, each until a limit; test_guard.py reads others
    "proxy/server/test_index_process.py": "system",  # index processes that hang, die and start again
    # Seconds of arithmetic or of chunking, about code that seldom changes.
    "evaluation/answers/scoring/test_verdict_draws.py": "system",
    "evaluation/stats/test_coverage.py": "system",
    "retrieval/ingest/chunking/test_pathological.py": "system",
    # OCR, processes that are killed, and bombs: libraries that seldom change, read by each office and PDF test, too.
    "properties/test_sync.py": "system",
    "retrieval/ingest/formats/test_hostile.py": "system",
    "retrieval/ingest/test_archives.py": "system",
    "retrieval/ingest/test_sandbox.py": "system",
    "retrieval/ingest/sources/test_bucket.py": "system",  # each source has a process, which imports a large library
    "retrieval/ingest/formats/test_pictures.py": "system",
    # torch, with sentence-transformers: seconds to import, and half a minute to prepare the default embedder.
    "cli/test_packaged_model.py": "system",
    "retrieval/embedding/test_embed.py": "system",
    "retrieval/embedding/test_export.py": "system",
    "retrieval/embedding/test_models.py": "system",
    "retrieval/search/test_conversation.py": "system",
    "retrieval/search/test_rerank.py": "system",
    "retrieval/stores/test_edge.py": "system",  # kill -9, optimisation in a process; contracts/ checks the store
    "retrieval/index/test_concurrent_writes.py": "system",  # many whole ingests
    "retrieval/index/test_reindex.py": "system",  # whole collections embedded several times
    "retrieval/index/test_replicas.py": "system",  # pairs of processes on PostgreSQL and Qdrant
    # Little processor time: one gateway for all tests of the file, or for the whole run.
    "wire/test_agents.py": "",
    "wire/test_encoded_bodies.py": "",
    "wire/test_filters.py": "",
    "wire/test_gateway.py": "",
    "wire/test_gateway_refusals.py": "",
    "wire/test_gateway_replies.py": "",
    "wire/test_messages.py": "",
    "wire/test_relay_streams.py": "",
    "wire/test_responses.py": "",
    "wire/test_sdk_python.py": "",
    "wire/test_upstream_faults.py": "",
}

# Files that go to one worker, by the start of their path, so that the other worker never imports a large library (each
# takes 300 to 400 MB and several seconds of processor time).
TOGETHER = {
    "tests/proxy/upstream/translated/": "litellm",
    "tests/proxy/upstream/bridges/": "litellm",
    "tests/retrieval/embedding/test_remote.py": "litellm",
    "tests/retrieval/embedding/": "torch",
    "tests/retrieval/search/test_rerank.py": "torch",
}
# Folders with long tests: workers take their files first, so that no worker waits long at the end.
LONG = ("wire", "proxy/upstream", "retrieval", "cli", "evaluation", "benchmarks")


def together(path: str) -> str:
    """What goes to one worker: a group of test files, or the file."""
    if path.startswith("tests/wire/") and not tier_of(path.removeprefix("tests/")):
        return "wire"  # these files share two gateways
    return next((group for start, group in TOGETHER.items() if path.startswith(start)), path)


def turn(path: str) -> int:
    """When workers take a test file, by its path below tests/."""
    return next((number for number, folder in enumerate(LONG) if path.startswith(f"{folder}/")), len(LONG))


def tier_of(path: str) -> str:
    """The marker of a test file, by its path below tests/."""
    return TIERS[max((place for place in TIERS if f"{path}/".startswith(place and f"{place}/")), key=len)]
