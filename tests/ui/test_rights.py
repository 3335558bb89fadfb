"""What a token may not see or do, the inspector neither shows nor does."""

from __future__ import annotations

import json

import pytest

import stored
from browser import WIDE, folded_open, place
from support.access import METHODS, READS
from support.http import HttpCaller

# Words of others' memory, for a token of Ada's.
FOREIGN = (stored.BEN, "Berlin", "kilos of apples", "Where is my order", "metric units", "القاهرة", "Ünïcode",
           "picture.png")
PLACES = [place("sessions"), place("sessions", subject=stored.BEN), place("subjects"), place("items"),
          place("items", "files"), place("items", "users", stored.BEN, "memories"), place("usage"),
          place("server"),
          *(place("session", session_id, tab) for session_id in (stored.SUPPORT, stored.TRIP, stored.RESEARCH)
            for tab in ("messages", "context", "memory", "search", "activity", "jobs", "contents", "config"))]
WRITES = {name for name in METHODS if name not in READS}
# What is not asked for by name of a right: it changes nothing.
HARMLESS = {"GetServerInfo", "WatchSession"}


@pytest.fixture
def opened(browser):
    browser.look(WIDE, "light")
    yield browser
    browser.script("sessionStorage.clear()")
    browser.console()


def visit(browser) -> None:
    """Goes everywhere, and presses what can be pressed, but for what leads elsewhere."""
    for where in PLACES:
        browser.go(where)
        folded_open(browser)


def methods_called(browser) -> set[str]:
    return {call["url"].rpartition("/")[2] for call in browser.seen("calls")}


def state(address: str, token: str = "all") -> str:
    """All that a write would change, as a text."""
    call = HttpCaller(address, token)
    sessions = call("ListSessions")[1]["sessions"]
    parts = [sessions, call("ListNamespaces")[1],
             *(call("GetBlock", sessionId=stored.TRIP, block=name)[1] for name in ("facts", "people")),
             *(call("ListJobs", sessionId=session["sessionId"])[1] for session in sessions)]
    for part in parts:
        for session in part if isinstance(part, list) else ():
            session.pop("usage", None)
    return json.dumps(parts, sort_keys=True)


def test_without_a_token_it_is_asked_for_and_nothing_is_shown(opened, guarded):
    opened.open(guarded.http)
    assert opened.has("Who are you?")
    assert stored.TRIP not in opened.text()
    opened.type("#token", "wrong")
    assert opened.has("does not know this token")
    opened.type("#token", "all")
    assert opened.has(stored.TRIP)
    assert "all" not in opened.script("return location.href")
    assert opened.script("return document.cookie") == ""
    assert opened.script("return sessionStorage.length") == 1
    opened.script("location.reload()")
    opened.settle()
    assert opened.has(stored.TRIP)


def test_a_token_that_is_not_kept_is_gone_after_a_reload(opened, guarded):
    opened.open(guarded.http)
    opened.click("#keep-token")
    opened.type("#token", "all")
    assert opened.has(stored.TRIP)
    assert opened.script("return sessionStorage.length + localStorage.length") == 0
    opened.script("location.reload()")
    opened.settle()
    assert opened.has("Who are you?")


@pytest.mark.parametrize("token", ("ada", "ada-reader"))
def test_a_subjects_token_sees_nothing_of_others(opened, guarded, token):
    opened.open(guarded.http, token=token)
    visit(opened)
    opened.go(place("subject", stored.ADA))
    assert opened.has("Ada is allergic to peanuts.")
    assert opened.has("Your memory")
    bodies = opened.seen("bodies")
    assert len(bodies) > 30
    for body in bodies:
        for word in FOREIGN:
            # What the page itself asked for may stand in an error.
            assert word not in body, (word, body[:500])


@pytest.mark.parametrize("token", ("reader", "ada-reader"))
def test_a_reader_writes_nothing(opened, guarded, token):
    before = state(guarded.http)
    opened.open(guarded.http, token=token)
    visit(opened)
    opened.go(place("session", stored.TRIP, "memory"))
    folded_open(opened)
    assert opened.has("lacks the right “write”")
    names = ("Correct", "Remove", "Undo", "Add a fact", "Retry", "Give up", "Erase…")
    writing = opened.script("""
      return [...document.querySelectorAll("#main button")].filter((one) =>
        arguments[0].includes(one.innerText));""", names)
    assert len(writing) >= 6
    assert not any(button.is_enabled() for button in writing)
    assert methods_called(opened) & WRITES <= HARMLESS
    # Who makes the page ask all the same is refused by the server.
    opened.script("arguments[0].disabled = false; arguments[0].click();", writing[1])
    opened.settle()
    assert opened.has("RIGHT_MISSING")
    assert state(guarded.http) == before


def test_each_write_has_the_name_of_its_call(opened, guarded):
    """Else the test above would miss one."""
    opened.open(guarded.http, token="all")
    opened.go(place("session", stored.TRIP, "memory"))
    opened.click(".fact button", "Undo")
    assert "UndoBlockChange" in methods_called(opened) & WRITES


def test_a_token_without_rights_is_told_what_it_lacks(opened, guarded):
    opened.open(guarded.http, token="nothing")
    assert opened.has("RIGHT_MISSING")
    assert opened.has("worker")
    assert stored.TRIP not in opened.text()
