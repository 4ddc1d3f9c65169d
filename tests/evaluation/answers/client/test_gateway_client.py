"""What the client of the gateway reads from the headers of an answer."""

from evaluation.answers.client.gateway_client import operations_in, stages_of
from proxy.exchange import HEADER_WORDS


def test_stages_are_read_and_entries_of_another_form_are_left_out() -> None:
    header = 'parse;dur=0.1, retrieval;dur="12.5";desc="a", cache, odd;dur=x, ;dur=1'
    assert stages_of(header) == {"parse": 0.1, "retrieval": 12.5}


def test_words_of_the_gateway_are_not_operations() -> None:
    called = ["atlas/listOrganizations", "crm/näme"]
    assert operations_in(",".join([*HEADER_WORDS, called[0], "crm/n%C3%A4me"])) == called
    assert operations_in("") == operations_in("not-ready") == []
