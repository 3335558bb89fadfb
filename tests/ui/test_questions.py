"""Ten questions, answered by the page alone. Each says how many clicks it takes from the list of sessions.

Run with -s, they are printed as steps."""

from __future__ import annotations

import pytest

import stored
from browser import WIDE, place
from support.http import HttpCaller

LIST = place("sessions")
TABS = "[role=tab]"


@pytest.fixture
def steps(browser, server, capsys):
    browser.look(WIDE, "light")
    browser.open(server.http)
    browser.clicks = 0
    told = Steps(browser)
    yield told
    with capsys.disabled():
        print("\n" + told.told(), end="")


class Steps:
    """Clicks, counted and told."""

    def __init__(self, browser) -> None:
        self.browser = browser
        self.question = ""
        self.lines: list[str] = []

    def ask(self, question: str) -> None:
        self.question = question

    def click(self, css: str, text: str = "", told: str = "") -> None:
        self.browser.click(css, text)
        self.lines.append(f"click “{told or text}”")

    def type(self, css: str, text: str, told: str) -> None:
        self.browser.type(css, text)
        self.lines.append(f"type “{text}” into “{told}”")

    def sees(self, text: str) -> None:
        self.browser.wait_text(text)
        self.lines.append(f"read “{text}”")

    def session(self, session_id: str) -> None:
        self.click("a.main-link", session_id)

    def told(self) -> str:
        clicks = self.browser.clicks
        return f"{self.question} {clicks} {'click' if clicks == 1 else 'clicks'}: {', '.join(self.lines)}.\n"


def test_why_is_this_fact_there(steps):
    steps.ask("Why is this fact there?")
    steps.session(stored.TRIP)
    steps.click(TABS, "Memory")
    steps.sees("Ada is allergic to peanuts.")
    steps.click(".fact .chip", "#2")
    steps.sees("I am allergic to peanuts.")
    assert steps.browser.one("article.is-sought").is_displayed()
    assert steps.browser.clicks == 3


def test_undo_it_and_see_the_next_get_change(steps):
    steps.ask("Undo it, and see the next Get change?")
    steps.session(stored.TRIP)
    steps.click(TABS, "Context")
    steps.sees("Ada prefers trains to planes.")
    steps.click(TABS, "Memory")
    steps.click(".fact button", "Undo")
    steps.click(TABS, "Context")
    assert not steps.browser.has("Ada prefers trains to planes.")
    assert steps.browser.clicks == 5


def test_why_was_this_message_cut(steps):
    steps.ask("Why was this message cut?")
    steps.session(stored.SHOP)
    steps.click(TABS, "Context")
    steps.sees("have left short-term memory: it may have 100 tokens")
    assert steps.browser.clicks == 2


def test_which_job_failed_and_retry_it(steps, call):
    steps.ask("Which job failed? Retry it.")
    steps.session("job-that-failed")
    steps.click(TABS, "Jobs")
    steps.click("button", "Failed")
    steps.sees("it answered HTTP 500")
    steps.click(".job button", "Retry")
    assert steps.browser.clicks == 4
    steps.sees("retried")
    # One of the two was retried, and its card has no button.
    assert len(steps.browser.all(".job")) == 2
    assert [one.text for one in steps.browser.all(".job button")] == ["Retry"]
    stored.jobs_end(call, "job-that-failed")
    steps.click("button", "Done")
    steps.sees("done")


def test_what_does_a_users_agent_know(steps):
    steps.ask("What does user X’s agent know?")
    steps.click("td a", stored.ADA)
    steps.sees("Ada lives in Lisbon.")
    steps.sees("Ada travels with a dog called Bella.")
    assert steps.browser.clicks == 1


def test_why_did_query_rank_this_first(steps):
    steps.ask("Why did Query rank this first?")
    steps.session(stored.TRIP)
    steps.click(TABS, "Search")
    steps.type("#query", "When does the train to Porto leave?", "Search messages, contents and knowledge")
    steps.sees("Ahead of the next by")
    bar = steps.browser.one(".result .score-bar")
    assert "words" in bar.get_attribute("aria-label")
    assert steps.browser.clicks == 2


def test_what_did_the_tool_return_in_step_12(steps):
    steps.ask("What did the tool return in step 6?")
    steps.session(stored.TRIP)
    steps.type("#goal", "6", "Go to message")
    steps.click(".is-sought summary", "get_weather")
    steps.sees("showers")
    assert steps.browser.clicks == 2


def test_how_many_tokens_does_a_block_take(steps):
    steps.ask("How many tokens does block B take?")
    steps.session(stored.TRIP)
    steps.click(TABS, "Context")
    row = steps.browser.one(".legend tr", "tokens")
    assert "tokens" in row.text
    assert steps.browser.clicks == 2


def test_what_changed_in_the_last_minute(steps, call):
    steps.ask("What changed in the last minute?")
    call("Put", sessionId=stored.SUPPORT, messages=[stored.said("user", "Any news?")])
    steps.session(stored.SUPPORT)
    steps.click(TABS, "Activity")
    steps.sees("In the last minute")
    steps.sees("Any news?")
    assert steps.browser.clicks == 2
    call("Put", sessionId=stored.SUPPORT, messages=[stored.said("assistant", "It was found in Rotterdam.")])
    steps.sees("It was found in Rotterdam.")


def test_erase_a_user(steps, call):
    steps.ask("Erase X.")
    steps.click("td a", stored.ADA)
    steps.click("button", "Erase…")
    steps.sees("1 session")
    assert not steps.browser.one("dialog button.danger").is_enabled()
    steps.type("#typed", stored.ADA, "Type … to confirm")
    steps.sees("Erased.")
    steps.click("dialog button", "Close")
    steps.sees("Nothing is remembered of this subject.")
    assert steps.browser.clicks == 3
    assert HttpCaller(call.address)("GetSession", sessionId=stored.TRIP)[0] == 404
