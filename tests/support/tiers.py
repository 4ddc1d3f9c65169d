"""Which tests `make test` leaves out, by folder or file. `make test-all` runs every test."""

# Path below tests/ -> marker of its tests ("" = none). The longest path counts.
TIERS = {
    "": "",
    "benchmarks": "peers",  # start servers of peer projects, and measure
    "wire": "system",  # start gateways with index process and workers, for each test or file
    "test_journeys.py": "system",  # a gateway under a profiler
    # Commands on real documents, started and stopped; evaluation/ and retrieval/ check the same in one process.
    "cli/test_eval.py": "system",
    "cli/test_reindex.py": "system",
    "cli/test_replay.py": "system",
    "proxy/agent/writes/test_killed_gateways.py": "system",  # a hundred processes that are killed
    "proxy/apis/test_library.py": "system",  # indexes, and processes that are killed
    "proxy/server/test_index_process.py": "system",  # index processes that hang, die and start again
    "retrieval/stores/test_edge.py": "system",  # kill -9, optimisation in a process; contracts/ checks the store
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
    "wire/test_write_machine.py": "",
}

# Folders that go to one worker, so that the other one never imports a large library: torch with sentence-transformers,
# or litellm. Each takes 300 to 400 MB and several seconds of processor time.
TOGETHER = {
    "tests/retrieval/": "retrieval",
    "tests/proxy/upstream/translated/": "litellm",
    "tests/proxy/upstream/bridges/": "litellm",
}


def together(path: str) -> str:
    """What goes to one worker: the folder of a test file, or the file."""
    return next((group for folder, group in TOGETHER.items() if path.startswith(folder)), path)


def tier_of(path: str) -> str:
    """The marker of a test file, by its path below tests/."""
    return TIERS[max((place for place in TIERS if f"{path}/".startswith(place and f"{place}/")), key=len)]
