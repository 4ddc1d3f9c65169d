"""Which tests `make test` leaves out, by folder or file. `make test-all` runs every test."""

# Path below tests/ -> marker of its tests ("" = none). The longest path counts.
TIERS = {
    "": "",
    "benchmarks": "peers",  # start servers of peer projects, and measure
    "wire": "system",  # start gateways with index process and workers, for each test or file
    "wire/test_gateway.py": "",  # one gateway for all tests of the file
    "wire/test_gateway_replies.py": "",
    "wire/test_sdk_python.py": "",
}


def tier_of(path: str) -> str:
    """The marker of a test file, by its path below tests/."""
    return TIERS[max((place for place in TIERS if f"{path}/".startswith(place and f"{place}/")), key=len)]
