"""Each view of the inspector: what it shows, what it says to who cannot see it, and its pictures."""

from __future__ import annotations

import pytest

import frameworks
import stored
from browser import NARROW, WIDE, folded_open, place, printed
from support.http import LISTEN, HttpCaller
from support.server import Server

TRIP = ("session", stored.TRIP)
VIEWS = {
    "sessions": (place("sessions"), [stored.TRIP, stored.SHOP, "ben@example.org"]),
    "found": (place("sessions", prefix="openai"), [stored.SUPPORT]),
    "messages": (place(*TRIP), ["Yes, book it.", "Short-term memory begins here", "archived"]),
    "adk": (place("session", stored.SHOP), ["Put 12 kilos of apples", "cart"]),
    "openai-agents": (place("session", stored.SUPPORT), ["lookup_order", "untrusted", "pinned"]),
    # The last messages of a chat stand at the end; calls of tools are folded.
    **{name: (place("session", name), ["Sun.", "weather", "sun in Lyon"]) for name in frameworks.CHATS},
    "graph": (place("items", *frameworks.THREAD), ["items"]),
    "scripts": (place("session", stored.RTL), ["مرحبا", "日本語", "👩‍👩‍👧‍👦"]),
    "context": (place(*TRIP, "context", question="Where does Ada live?"),
                ["of 400 tokens", "You plan trips.", "<memoryd_memory>", "Inserted by memory"]),
    "memory": (place(*TRIP, "memory"), ["Ada lives in Lisbon.", "trust", "#2", "You plan trips.",
                                        "plans a day in Porto", "Ada's dog, who travels along.", "earlier"]),
    "search": (place(*TRIP, "search", q="dog"), ["Found by", "Bella", "words"]),
    "memory-failed": (place("session", "job-that-failed", "memory"),
                      ["2 jobs failed: messages #1 to #4 are not in here. Jobs", "2 jobs in all"]),
    "context-failed": (place("session", "job-that-failed", "context"),
                       ["has nothing to say. 2 jobs failed: messages #1 to #4 are not in here"]),
    "jobs": (place("session", "job-that-failed", "jobs"), ["failed", "HTTP 500", "3 attempts", "Retry"]),
    "jobs-done": (place(*TRIP, "jobs"), ["done", "Usage by model", "embed", "All, since the session"]),
    "contents": (place("session", stored.RESEARCH, "contents"), ["metric units", "leek"]),
    "settings": (place(*TRIP, "config"), ["tokenLimit", "fact-extraction"]),
    "subjects": (place("subjects"), [stored.ADA, stored.BEN]),
    "subject": (place("subject", stored.ADA),
                ["Ada is allergic to peanuts.", "memories", stored.TRIP, "Erase"]),
    "items": (place("items"), ["users", "files"]),
    "namespace": (place("items", "users", stored.ADA, "memories"), ["diet", "home", "2 items"]),
    "usage": (place("usage"), ["tokens", "Today"]),
    "server": (place("server"), ["sqlite", "0.1.0", "not wanted"]),
    "nowhere": (place("nowhere"), ["no such place", "All sessions"]),
}
LOOKS = {"light": (WIDE, "light"), "dark": (WIDE, "dark"), "narrow": (NARROW, "light"),
         "narrow-dark": (NARROW, "dark")}
OVERFLOW = """
const main = document.getElementById("main");
return [document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth];
"""


@pytest.fixture(scope="module")
def opened(browser, server):
    frameworks.tell(server.target)
    browser.look(WIDE, "light")
    browser.open(server.http)
    browser.console()
    yield browser
    browser.look(WIDE, "light")


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_shows_what_it_is_for(opened, name):
    where, wanted = VIEWS[name]
    opened.go(where)
    text = opened.text()
    for one in wanted:
        assert one.casefold() in text.casefold(), f"{one!r} is not in:\n{text}"
    assert "The page failed" not in text
    assert opened.console() == []
    assert opened.seen("breaches") == []
    assert opened.foreign_requests() == []
    assert opened.script("return document.title").endswith("memoryd")


@pytest.mark.parametrize("look", LOOKS)
def test_each_view_keeps_the_rules_of_accessibility(opened, look, pictures):
    opened.look(*LOOKS[look])
    faults = {}
    for name, (where, _) in VIEWS.items():
        opened.go(where)
        opened.picture(pictures / f"{name}-{look}.png")
        folded_open(opened)
        if found := opened.axe():
            faults[name] = found
        if max(opened.script(OVERFLOW)) > 0:
            faults.setdefault(name, []).append("wider than the page")
    assert not faults, printed(faults)


def test_each_view_is_reached_and_used_by_the_keyboard(opened):
    opened.look(WIDE, "light")
    opened.go(place("sessions"))
    # What has the focus is seen to have it, and each link and button can have it.
    unreachable = opened.script("""
      return [...document.querySelectorAll("#main a, #main button")].filter((one) =>
        one.tabIndex < 0 && one.getAttribute("role") !== "tab").map((one) => one.outerHTML)""")
    assert unreachable == []
    opened.one("body").send_keys("/")
    assert opened.script("return document.activeElement.id") == "prefix"
    opened.type("#prefix", stored.TRIP)
    assert opened.text("h1") == stored.TRIP
    # A screen reader is where the view begins.
    assert opened.script("return document.activeElement.tagName") in ("H1", "BODY")
    opened.one("[role=tab][aria-selected=true]").send_keys("\ue014")  # The arrow to the right.
    assert opened.script("return document.activeElement.innerText") == "Context"


def test_a_block_is_not_said_to_be_fed_where_jobs_failed(opened):
    opened.go(place("session", "job-that-failed", "memory"))
    assert not opened.has("Fed with all")
    opened.click(".note.bad a", "Jobs")
    assert opened.script("return location.hash").endswith("/jobs?state=FAILED")
    opened.go(place(*TRIP, "memory"))
    assert opened.has("Fed with all that left short-term memory")
    assert not opened.has("failed")


def test_the_newest_job_comes_first(opened):
    opened.go(place("session", "job-that-failed", "jobs"))
    shown = [one.text.splitlines() for one in opened.all(".job header")]
    assert [one for one in shown if "messages #1 to #2" in " ".join(one)] == shown[-1:], shown


def test_a_session_that_is_not_there_has_a_way_on(opened):
    opened.go(place("session", "not-there"))
    assert "SESSION_NOT_FOUND" in opened.text()
    opened.click("button", "All sessions")
    assert opened.has(stored.TRIP)
    opened.console()  # The browser notes the status 404.


def test_a_fresh_store_says_what_to_type_next(browser):
    with Server("sqlite::memory:", arguments=[LISTEN]) as empty:
        browser.open(empty.http)
        assert "memoryd put s1" in browser.text()
        for where, wanted in ((place("items"), "--subject ada"), (place("subjects"), "subject"),
                              (place("subject", "nobody"), "Nothing is remembered")):
            browser.go(where)
            assert wanted in browser.text()
        HttpCaller(empty.http)("CreateSession", sessionId="bare")
        for tab, wanted in (("messages", "No message yet"), ("context", "no message and no memory"),
                            ("memory", "no long-term memory"), ("jobs", "No jobs"),
                            ("contents", "No contents"), ("search", "Ask what the session knows")):
            browser.go(place("session", "bare", tab))
            assert wanted in browser.text(), browser.text()
            assert browser.axe() == []
