"""What the client of the gateway reads from the headers of an answer."""

from evaluation.answers.client.gateway_client import stages_of


def test_stages_are_read_and_entries_of_another_form_are_left_out() -> None:
    header = 'parse;dur=0.1, retrieval;dur="12.5";desc="a", cache, odd;dur=x, ;dur=1'
    assert stages_of(header) == {"parse": 0.1, "retrieval": 12.5}
