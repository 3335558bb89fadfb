"""Some rounds of shared_facts.py; `make shared-test` has more."""

from __future__ import annotations

import shared_facts


def test_a_fact_is_known_to_its_subject_alone_whatever_is_killed(store):
    found = shared_facts.run(store, rounds=2, seed=1)
    assert (found.missing, found.leaked) == (0, 0)


def test_what_is_missing_or_leaked_is_counted(capsys):
    class Knowing:
        def __init__(self, subject, fact, told, results):
            self.subject, self.fact = subject, fact
            self.knows = lambda: (told, results)

    found = shared_facts.Found()
    shared_facts.compare(found, [
        Knowing("ann", "likes x", "<fact>likes x</fact>", ["likes x"]),
        Knowing("bob", "likes y", "", ["likes y", "likes x"]),
        Knowing("eve", "likes z", "<fact>likes y</fact>", [])])
    assert (found.missing, found.leaked) == (3, 2)
