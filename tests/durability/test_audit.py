"""The check of the kill runs sees what it looks for."""

from support.job_load import Findings
from support.writers import Audit

SENT = ["0/0/a", "1/0/a", "0/1/a", "1/1/a"]


def result(stored):
    found = Audit()
    found.add_session(SENT, stored)
    return found.lost, found.doubled, found.reordered, found.unknown


def test_what_was_acknowledged_is_clean_in_any_order_of_writers():
    assert result(["1/0/a", "1/1/a", "0/0/a", "0/1/a"]) == (0, 0, 0, 0)


def test_a_missing_message_is_lost():
    assert result(SENT[:-1]) == (1, 0, 0, 0)


def test_a_message_stored_twice_is_doubled():
    assert result([*SENT, "1/1/a"]) == (0, 1, 0, 0)


def test_a_writers_messages_out_of_order_are_seen():
    assert result(["0/1/a", "0/0/a", "1/0/a", "1/1/a"]) == (0, 0, 1, 0)


def test_a_message_that_nobody_sent_is_seen():
    assert result([*SENT, "2/0/a"]) == (0, 0, 0, 1)
    assert result(["0/0/b", *SENT[1:]]) == (1, 0, 0, 1)


def of_block(held, ordered=True):
    found = Findings(jobs=1)
    found.compare(["a", "b", "c"], held, ordered)
    return found.clean, (found.lost, found.doubled, found.reordered)


def test_what_a_block_holds_is_compared_with_what_it_was_fed():
    assert of_block(["a", "b", "c"]) == (True, (0, 0, 0))
    assert of_block(["b", "a", "c"], ordered=False) == (True, (0, 0, 0))
    assert of_block(["b", "a", "c"]) == (False, (0, 0, 1))
    assert of_block(["a", "c"]) == (False, (1, 0, 0))
    assert of_block(["a", "b", "b", "c"]) == (False, (0, 1, 0))
    assert of_block(["a", "b", "c", "d"], ordered=False) == (False, (0, 1, 0))
    assert not Findings().clean
    assert not Findings(jobs=1, ended_otherwise=1).clean
