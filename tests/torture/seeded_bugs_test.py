"""The seeded bugs still fit the source."""

from __future__ import annotations

import dataclasses

import pytest

from torture.proof import ROOT, edited
from torture.seeded_bugs import BUGS


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_a_bug_replaces_stands_once(bug):
    for path, text in edited(bug).items():
        assert text != (ROOT / path).read_text()


def test_names_differ():
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("old", ("\n", "what no source says"))
def test_what_stands_twice_or_not_at_all_is_an_error(old):
    bug = BUGS[0]
    edit = dataclasses.replace(bug.edits[0], old=old)
    with pytest.raises(ValueError, match=edit.path):
        edited(dataclasses.replace(bug, edits=(edit,)))
