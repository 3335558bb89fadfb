"""The live tail of a session: what comes and what leaves while it is read."""

from __future__ import annotations

import contextlib

import stored
from browser import WIDE, place
from support.http import LISTEN, HttpCaller
from support.server import Server
from support.waiting import wait_for

CHAT = "document.querySelector('.chat')"


def words(number: int) -> dict:
    return stored.said("user" if number % 2 else "assistant", f"message {number} " + "of some words " * 8)


def test_who_reads_further_up_stays_there(browser, server, call):
    call("CreateSession", sessionId="flushing", config={
        "tokenLimit": "2000", "tokenFlushSize": "1", "chatHistoryTokenRatio": 0.5,
        "tokenizer": "whitespace"})
    call("Put", sessionId="flushing", messages=[words(number) for number in range(1, 201)])
    browser.look(WIDE, "light")
    browser.open(server.http, place("session", "flushing"))
    browser.click("button", "Live")
    wait_for(lambda: browser.text(".chat-status").startswith("Live"))
    browser.settle()
    browser.script(f"{CHAT}.scrollTop -= 1500")
    browser.settle()
    before = browser.script(f"return [{CHAT}.scrollTop, {CHAT}.querySelectorAll('.is-archived').length]")
    call("Put", sessionId="flushing", messages=[words(number) for number in range(201, 205)])
    browser.wait_text("4 new messages below")
    after = browser.script(f"return [{CHAT}.scrollTop, {CHAT}.querySelectorAll('.is-archived').length]")
    assert after[0] == before[0]
    assert after[1] > before[1]
    # Each message stands as the server has it now.
    known = {one["position"]: one["status"] == "MESSAGE_STATUS_ARCHIVED"
             for one in call("GetAll", sessionId="flushing", pageSize=1000)["messages"]}
    shown = browser.script("""
      return [...document.querySelectorAll("article.message")].map((one) =>
        [one.dataset.position, one.classList.contains("is-archived")])""")
    assert [known[position] for position, _ in shown] == [is_archived for _, is_archived in shown]
    (begin,) = browser.all(".boundary")
    assert browser.script("return arguments[0].nextElementSibling.dataset.position", begin) == next(
        position for position, is_archived in known.items() if not is_archived)


def test_live_asks_where_no_more_sessions_may_be_watched(browser):
    with Server("sqlite::memory:", arguments=[LISTEN, "--tenant-watches=1"]) as server:
        call = stored.Storing(server.http)
        call("Put", sessionId="asked", messages=[stored.said("user", "before")])
        with contextlib.closing(HttpCaller(server.http).watch("WatchSession", sessionId="asked")) as other:
            next(other)
            browser.look(WIDE, "light")
            browser.open(server.http, place("session", "asked"))
            browser.click("button", "Live")
            browser.wait_text("by asking every two seconds")
            call("Put", sessionId="asked", messages=[stored.said("user", "afterwards")])
            browser.wait_text("afterwards")
            browser.go(place("session", "asked", "activity"))
            browser.wait_text("by asking every two seconds")
        browser.console()  # The browser notes the status 429.
