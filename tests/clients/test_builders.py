"""Blocks and configurations by keywords, which are those that the server takes."""

import datetime
import inspect
import re

import pytest

from support.paths import REPOSITORY

import memoryd
from memoryd import blocks, config, retention, retrieval
from memoryd.v1 import memory_pb2 as wire

# An option is read by its name, or by a constant that the same file gives its name.
OPTIONS = re.compile(r"\boptions\.(?:Integer|Number|Bool|Text|RequiredText|Template|Texts|Scalars)\("
                     r"(?:\"([a-z_]+)\"|(k\w+))")
CONSTANTS = re.compile(r"\bconst char\* (k\w+) = \"([a-z_]+)\";")
# Options of several kinds, and what reads them.
SHARED = {"SectionOption(": "template", "FeedOption(": "accept_short_term_memory", "TtlOption(": "ttl"}
# Of a block, beside its options.
FIELDS = {"name", "priority", "worker", "content"}
# Kind, where its options are read, and one valid value for each of them.
KINDS = {
    blocks.static: ("static_block", {"template": "[{content}]"}),
    blocks.facts: ("fact_traits", {
        "model": "chat", "max_facts": 10, "facts": ["Drinks tea."], "facts_trust": 0.5, "ttl": 60,
        "same_fact_similarity": 0.9, "extraction_prompt": "{messages} {existing_facts} {max_facts}",
        "condense_prompt": "{existing_facts} {max_facts}", "accept_short_term_memory": False,
        "template": "[{content}]"}),
    blocks.vector: ("vector_block", {
        "embedder": "e", "top_k": 3, "retrieval_context_window": 1, "similarity_threshold": 0.5,
        "filter": {"topic": "home", "n": 1, "ok": True}, "format_template": "{text}",
        "ttl": datetime.timedelta(days=1), "accept_short_term_memory": True,
        "template": "{name}: {content}"}),
    blocks.summary: ("summary_block", {
        "model": "chat", "max_tokens": 100, "prompt": "{messages} {summary} {max_tokens}",
        "accept_short_term_memory": True, "template": "{content}"}),
    blocks.entities: ("entity_block", {
        "model": "chat", "max_entities": 10, "top_k": 3, "retrieval_context_window": 2,
        "prompt": "{messages} {existing_entities}", "accept_short_term_memory": True,
        "template": "{content}"}),
    blocks.session: ("session_block", {
        "session_id": "other", "accept_short_term_memory": False, "template": "{content}"}),
}
ALL_KINDS = [(build, *rest) for build, rest in KINDS.items()]
IDS = [build.__name__ for build in KINDS]


@pytest.fixture
def client(server):
    with memoryd.Client(server.target) as memory:
        yield memory


@pytest.mark.parametrize("build,file,values", ALL_KINDS, ids=IDS)
def test_the_keywords_are_the_servers_options(build, file, values):
    source = (REPOSITORY / f"core/blocks/{file}.cc").read_text(encoding="utf-8")
    constants = dict(CONSTANTS.findall(source))
    options = {name or constants[constant] for name, constant in OPTIONS.findall(source)}
    options |= {name for reads, name in SHARED.items() if reads in source}
    assert set(inspect.signature(build).parameters) - FIELDS == options == set(values)


def test_every_kind_has_a_builder():
    kinds = re.search(r"kKinds\[\] = \{(.*?)\n *\};",
                      (REPOSITORY / "core/blocks/kind_table.cc").read_text(encoding="utf-8"), re.DOTALL)
    made = {build(**values).kind for build, _, values in ALL_KINDS}
    made.add(blocks.worker("w", worker="x").kind)
    assert made == set(re.findall(r"\"([a-z-]+)\"", kinds[1]))


@pytest.mark.parametrize("build,file,values", ALL_KINDS, ids=IDS)
def test_the_server_takes_every_keyword(client, session_id, build, file, values):
    more = {"worker": "w"} if "worker" in inspect.signature(build).parameters else {}
    made = build(**values, **more, name="a-block", priority=3)
    session = client.create_session(session_id, config(blocks=[made]))
    assert session.config.blocks[0].options_json == made.options_json
    assert (made.name, made.priority, made.worker) == ("a-block", 3, more.get("worker", ""))
    for unknown in ("colour", "toString"):
        with pytest.raises(TypeError, match=unknown):
            build(**values, **{unknown: 1})


@pytest.mark.parametrize("build,values", [
    (blocks.facts, {"model": "chat"}), (blocks.vector, {"embedder": "e"}),
    (blocks.summary, {"model": "chat"}), (blocks.entities, {"model": "chat"}),
    (blocks.session, {"session_id": "other"}), (blocks.static, {}),
], ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_not_given_is_not_sent(client, session_id, build, values):
    made = build(**values)
    session = client.create_session(session_id, config(blocks=[made], tokenizer="whitespace"))
    assert session.config.blocks[0].options_json == made.options_json
    assert [option for option in values if f'"{option}"' not in made.options_json] == []
    assert made.options_json.count('"') == 4 * len(values)


def test_a_value_that_is_none_is_named(client, session_id):
    with pytest.raises(memoryd.MemorydError) as refused:
        client.create_session(session_id, config(blocks=[blocks.vector(embedder="e", top_k=101)]))
    assert refused.value.field == "config.blocks[0].options_json" and "top_k" in str(refused.value)


def test_static_blocks_say_texts_json_and_parts(client, session_id):
    image = wire.Part(image=wire.Media(url="https://example.com/a.png"))
    client.put(session_id, [{"role": "user", "content": "hi"}], config=config(blocks=[
        blocks.static("Answer in French.", {"tone": "dry"}, image)]))
    system = client.get(session_id).messages[0]
    assert "Answer in French." in str(system) and "example.com" in str(system) and "dry" in str(system)


@pytest.mark.parametrize("wrong,what", [
    (lambda: blocks.static(3), r"content\[0\]: must be a text"),
    (lambda: blocks.facts(model="m", facts="Drinks tea."), "facts: must be a list of texts"),
    (lambda: blocks.facts(), "model"),
    (lambda: blocks.vector(), "embedder"),
    (lambda: blocks.facts("chat"), "positional"),
    (lambda: config(30_000), "positional"),
    (lambda: config(tokens=3), "tokens"),
    (lambda: retention(ttl=3), "ttl"),
    (lambda: retrieval(embeder="e"), "embeder"),
])
def test_what_is_wrong_is_said_at_once(wrong, what):
    with pytest.raises(TypeError, match=what):
        wrong()


@pytest.mark.parametrize("wrong,what", [
    (lambda: config(feed="later"), "feed: must be 'after-commit' or 'before-reply'; got 'later'"),
    (lambda: config(insert_method="front"), "insert_method: must be 'system' or 'user'"),
    (lambda: blocks.facts(model="m", ttl=datetime.timedelta(milliseconds=1)), "ttl: must be whole seconds"),
])
def test_values_of_no_choice_are_said_at_once(wrong, what):
    with pytest.raises(ValueError, match=what):
        wrong()


@pytest.mark.parametrize("build,message", [
    (config, wire.SessionConfig), (retention, wire.Retention), (retrieval, wire.Retrieval)],
    ids=["config", "retention", "retrieval"])
def test_the_keywords_are_the_fields(build, message):
    parameters = inspect.signature(build).parameters
    assert set(parameters) == set(message.DESCRIPTOR.fields_by_name)
    assert all(one.kind is one.KEYWORD_ONLY for one in parameters.values())
    for name in parameters:
        assert f"`{name}`" in (build.__doc__ or ""), name


GIVEN = config(
    profile="default", token_limit=8000, token_flush_size=10, chat_history_token_ratio=0.5,
    insert_method="user", tokenizer="whitespace", policy="fifo", blocks=[blocks.static("hi", priority=2)],
    feed="before-reply", image_token_count=1, audio_token_count=2, video_token_count=3,
    document_token_count=4, subject="ann", user_roles=["guest-star"], time_zone="Asia/Tokyo",
    cut_highest_first=False,
    retention=retention(session_ttl=datetime.timedelta(days=30), refresh_on_read=True, keep_messages=10,
                        message_ttl=3600.0, keep_bytes=10_000),
    retrieval=retrieval(vector_weight=0.5, bm25_k1=1.0, bm25_b=0.5, expansion=False, dates=False,
                        author_weight=0.1, user_weight=0.1, neighbour_weight=0.1, neighbour_tokens=10,
                        answer_factor=1.0, thread_weight=0.1, length_weight=0.1, length_tokens=10,
                        recency_weight=0.1, vector_threshold=0.2, embedder_weight=0.5, language="de"))


def test_the_server_keeps_a_whole_configuration(client, session_id):
    """What is read back is what was given, field by field."""
    kept = client.create_session(session_id, GIVEN).config
    for field, value in GIVEN.ListFields():
        theirs = getattr(kept, field.name)
        if field.name != "retrieval":
            assert theirs == value, field.name
    for field, value in GIVEN.retrieval.ListFields():
        assert getattr(kept.retrieval, field.name) == value, field.name


def test_an_update_changes_what_is_given(client, session_id):
    client.create_session(session_id, config(token_limit=500, subject="ann"))
    changed = client.update_session(session_id, config(token_limit=600)).config
    assert (changed.token_limit, changed.subject) == (600, "ann")


def test_a_worker_gets_its_options(client, session_id):
    made = blocks.worker("mentions", worker="my-worker", options={"of": "Logan", "none": None}, priority=1)
    kept = client.create_session(session_id, config(blocks=[made])).config.blocks[0]
    assert (kept.kind, kept.worker, kept.options_json) == (
        "worker", "my-worker", '{"of": "Logan", "none": null}')
