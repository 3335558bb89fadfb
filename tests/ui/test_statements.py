"""What the page says is so: about what was replaced, undone, failed, cut and erased."""

from __future__ import annotations

import pytest

import stored
from browser import WIDE, place

TRIP = ("session", stored.TRIP)
HAND = "facts-by-hand"


@pytest.fixture(scope="module")
def opened(browser, server):
    browser.look(WIDE, "light")
    browser.open(server.http)
    yield browser


@pytest.fixture(scope="module")
def by_hand(server):
    """A session with a fact that was corrected."""
    call = stored.Storing(server.http)
    call("CreateSession", sessionId=HAND, config=stored.every_turn(
        "hand", [stored.block("facts", "fact-extraction", model="chat")]))
    added = call("AddFact", sessionId=HAND, block="facts", text="Eve lives in Rome.")
    call("UpdateFact", sessionId=HAND, block="facts", factId=added["fact"]["factId"],
         text="Eve lives in Oslo.")


def test_a_fact_says_what_it_replaced_and_brings_it_back(opened, by_hand):
    opened.go(place("session", HAND, "memory"))
    fact = opened.one(".knowledge:not(.past) .fact", "Eve lives in Oslo.")
    assert "replaced “Eve lives in Rome.”" in " ".join(fact.text.split())
    assert "added by hand" in fact.text
    assert not opened.has("no message")
    opened.click(".replaced button", "Undo")
    assert "Eve lives in Rome." in opened.one(".knowledge:not(.past) .fact-text").text
    opened.go(place("session", HAND, "activity"))
    assert opened.has("undone: Eve lives in Oslo., so again: Eve lives in Rome.")
    assert opened.has("added by hand: Eve lives in Rome.")


def test_activity_names_tools_and_the_errors_that_count(opened, server):
    opened.go(place(*TRIP, "activity"))
    assert opened.has("get_weather returned")
    assert opened.has("search_trains failed")
    assert not opened.has("[tool")
    opened.go(place("session", "job-that-failed", "activity"))
    assert opened.has("HTTP 500")


def test_the_way_up_ends_nowhere_else(opened):
    opened.go(place(*TRIP))
    assert opened.text(".trail") == "All sessions"
    opened.go(place("subject", stored.ADA))
    assert opened.text(".trail") == "All subjects"


def test_the_header_follows_what_the_page_changes(opened, server):
    call = stored.Storing(server.http)
    call("CreateSession", sessionId="header", config=stored.every_turn(
        "hand", [stored.block("facts", "fact-extraction", model="chat")]))
    call("AddFact", sessionId="header", block="facts", text="Eve has a cat.")
    opened.go(place("session", "header", "memory"))
    before = call("GetSession", sessionId="header")["session"]["revision"]
    assert f"revision {before}" in opened.text(".session-head")
    opened.click(".fact button", "Remove")
    after = call("GetSession", sessionId="header")["session"]["revision"]
    assert after != before
    assert f"revision {after}" in opened.text(".session-head")
    # Others change it too: another tab of it shows the session as it is then.
    call("Put", sessionId="header", messages=[stored.said("user", "Hello!")])
    opened.click("[role=tab]", "Settings")
    assert "1 active" in " ".join(opened.text(".session-head").split())
    # Times grow old while they are looked at.
    opened.script("""
      document.querySelector(".session-head time").dateTime = new Date(Date.now() - 7200000).toISOString();
      document.dispatchEvent(new Event("visibilitychange"));""")
    assert "2 hours ago" in opened.text(".session-head")


def test_failed_jobs_are_seen_from_afar(opened):
    opened.go(place("sessions"))
    badge = opened.one("tr .badge.bad", "jobs failed")
    assert "job-that-failed" in opened.script("return arguments[0].closest('tr').innerText", badge)
    assert len(opened.all("tr .badge.bad")) == 1
    assert opened.has("Listed by id. With a subject, what changed last comes first.")
    opened.go(place("subject", stored.BEN))
    opened.one("tr .badge.bad", "jobs failed")
    opened.go(place("session", "job-that-failed"))
    opened.one(".session-head .badge.bad", "jobs failed")
    opened.click(".session-head .badge.bad")
    assert opened.script("return location.hash").endswith("/jobs?state=FAILED")


def test_failed_jobs_are_retried_together_and_watched(opened, server, models):
    call = stored.Storing(server.http)
    opened.go(place("session", "job-that-failed", "jobs", state="FAILED"))
    failed = len(opened.all(".job"))
    assert failed > 1
    models.lie("status", times=100, code=500, retry_after=None)
    opened.click("button", f"Retry all {failed} failed")
    stored.jobs_end(call, "job-that-failed")
    # They failed again. Nobody clicks, and the list has them.
    opened.wait_text(f"Retry all {failed} failed")
    models.be_honest()
    models.set_replies(["<facts><fact>Ben lives in Berlin.</fact></facts>"])
    opened.click("button", f"Retry all {failed} failed")
    stored.jobs_end(call, "job-that-failed")
    opened.wait_text("Retried: the latest job is done")
    opened.click("button", "Done")
    assert len(opened.all(".job.is-done")) == failed
    opened.go(place("session", "job-that-failed", "memory"))
    assert not opened.has("jobs failed")
    assert opened.has("Fed with all that left short-term memory")
    assert opened.all(".session-head .badge.bad") == []


def test_context_leads_to_its_blocks_and_says_why_they_are_left_out(opened, server):
    call = stored.Storing(server.http)
    call("CreateSession", sessionId="no-room", config={
        "tokenLimit": "60", "chatHistoryTokenRatio": 0.9, "tokenFlushSize": "1", "tokenizer": "whitespace",
        "blocks": [stored.block("about", "static", priority=1, content="It is a long text. " * 8)]})
    call("Put", sessionId="no-room", messages=[stored.said("user", "word " * 40)])
    opened.go(place("session", "no-room", "context"))
    shown = call("Get", sessionId="no-room", explain=True)
    block = shown["explanation"]["blocks"][0]
    own = int(block["uncutTokenCount"])
    row = opened.one(".legend tr", "about").text
    assert f"left out: it has {own} tokens" in row
    assert f"whole, the context would have {int(shown['tokenCount']) + own} of 60" in row
    opened.click(".legend a", "about")
    assert opened.script("return location.hash").endswith("/memory?block=about")
    assert opened.has("It is a long text.")
    assert "44 tokens; beyond 54 the oldest leave" in " ".join(opened.text(".session-head").split())


def test_a_conversation_shows_what_is_known_of_its_user(opened, server):
    call = stored.Storing(server.http)
    call("CreateSession", sessionId="user:kim", config=stored.every_turn(
        "kim", [stored.block("facts", "fact-extraction", model="chat")]))
    call("CreateSession", sessionId="kim-monday", config={"subject": "kim", "blocks": [
        stored.block("user", "session", session_id="user:kim")]})
    call("AddFact", sessionId="user:kim", block="facts", text="Kim likes tea.")
    call("Put", sessionId="kim-monday", messages=[stored.said("user", "Good morning!")])
    stored.jobs_end(call, "kim-monday")
    opened.go(place("session", "kim-monday", "memory"))
    assert opened.has("Kim likes tea.")
    assert opened.has("All messages were handed on to that session")
    assert not opened.has("left short-term memory")
    opened.go(place("subject", "kim"))
    assert "2 messages" in " ".join(opened.text(".figures").split())
    assert opened.has("Messages that other sessions handed on count there and in user:kim.")


def test_an_archived_message_leads_to_why(opened):
    opened.go(place(*TRIP))
    opened.click("article.is-archived .badges a", "archived")
    assert opened.has("What is cut")


def test_scores_have_one_name_for_each_part(opened):
    opened.go(place(*TRIP, "search", q="train to Porto"))
    names = [one.text for one in opened.all(".legend-row li")]
    assert names.pop() == "0: what stands left of it lowers the score"
    found = [one for one in opened.text(".results").splitlines() if one.startswith("Found by")]
    assert found
    for line in found:
        assert any(f"Found by {name} (" in line for name in names), (line, names)
    for bar in opened.all(".score-bar"):
        parts = bar.get_attribute("aria-label").split(": ", 1)[1].split(", ")
        assert {part.rsplit(" ", 1)[0] for part in parts} <= set(names)


def test_models_that_report_no_tokens_are_said_to(opened, browser):
    opened.script("""
      window.real = window.fetch;
      window.fetch = async (...asked) => String(asked[0]).endsWith("GetUsage")
        ? new Response(JSON.stringify({usage: {calls: "7"}, today: {calls: "1", promptTokens: "5"}}))
        : window.real(...asked);""")
    opened.go(place("usage"))
    opened.script("window.fetch = window.real")
    text = opened.text()
    assert "7 calls, which reported no tokens" in text
    assert text.count("reported no tokens") == 1


def test_erasing_says_what_stays_of_the_same_name(opened, server):
    call = stored.Storing(server.http)
    call("CreateSession", sessionId="zoe-1", config={"subject": "zoe"})
    call("PutItem", namespace=["users", "zoe", "known"], config={"subject": "zoe"},
         put={"key": "a", "json": "1"})
    call("PutItem", namespace=["users", "zoe", "notes"], put={"key": "a", "json": "1"})
    call("PutItem", namespace=["users", "zoes"], put={"key": "a", "json": "1"})
    opened.go(place("subject", "zoe"))
    assert opened.has("erasing leaves them")
    opened.click("button", "Erase…")
    warned = opened.text("dialog .note.warn")
    assert "users/zoe/notes (1 item)" in warned
    assert "known" not in warned
    assert "zoes" not in warned
    opened.type("#typed", "zoe")
    opened.wait_text("Erased.")
    assert "users/zoe/notes" in opened.text("dialog [role=status]")
    opened.click("dialog button", "Close")
    assert opened.has("It was erased.")
    assert opened.all("button.danger") == []
    opened.click(".folder", "users / zoe / notes")
    assert opened.has("1 item")
