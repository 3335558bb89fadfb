"""CrewAI's memory in memoryd, beside its own in LanceDB."""

from __future__ import annotations

import asyncio
import datetime
import math
import random
import threading
import uuid
from typing import Any

import grpc
import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord

import programs
from support import paths
from support.server import Server

from memoryd import Client, MemorydError
from memoryd.crewai import Connection, MemorydStorage

SEED = 29
EXAMPLE = paths.REPOSITORY / "examples/crewai_agent.py"
SAID = ["now: boil", "now: brew", "now: pour", "done: boil, brew, pour"]
SIZE = 8
# None begins with the text of another, by which LanceDB's storage finds scopes.
SCOPES = ("/ann", "/ann/home", "/ann/home/kitchen", "/bob", "/bob/work", "/crew/x", "/crew/y/z")
ABOVE = ("/ann", "/ann/home", "/bob", "/crew", "/crew/y", "/nobody")
CATEGORIES = ("diet", "home", "two words", "日本", "a.b", "c/d")
METADATA: tuple[dict[str, Any], ...] = (
    {}, {"k": 1}, {"k": "1"}, {"k": None}, {"k": 1, "deep": {"a": [1, 2]}}, {"k": [1]}, {"n": 0.5})
START = datetime.datetime(2026, 1, 1, 12, 0, 0, 1)


@pytest.fixture
def storage(server) -> MemorydStorage:
    return MemorydStorage(uuid.uuid4(), server.target)


def unit(picked: random.Random) -> list[float]:
    """A vector of length 1, for which distance and cosine rank alike."""
    vector = [picked.gauss(0, 1) for _ in range(SIZE)]
    length = math.sqrt(sum(one * one for one in vector))
    return [one / length for one in vector]


def record(content: str = "tea", **more: Any) -> MemoryRecord:
    return MemoryRecord(content=content, **{"embedding": [1.0, 0.0], **more})


def shown(one: MemoryRecord | None) -> Any:
    """A record as both are to have it: 32 bits of each float, and not when it was read."""
    if one is None:
        return None
    vector = [round(number, 5) + 0.0 for number in one.embedding or ()]
    return one.model_dump(exclude={"last_accessed"}), vector


def without_vector(records: list[MemoryRecord]) -> list[Any]:
    return [one.model_dump(exclude={"last_accessed"}) for one in records]


class Both:
    """Random calls of the library's storage and of ours."""

    def __init__(self, theirs: Any, ours: MemorydStorage, seed: int) -> None:
        self._theirs, self._ours = theirs, ours
        self._random = random.Random(seed)
        self._ids: list[str] = []
        self._made = 0

    def new(self, id: str | None = None) -> MemoryRecord:
        pick = self._random
        self._made += 1
        made = START + datetime.timedelta(seconds=self._made)
        return MemoryRecord(
            id=id or f"id's {self._made}", content=pick.choice(("tea", "日本", "", "a\nb")) * 3,
            scope=pick.choice(SCOPES), categories=pick.sample(CATEGORIES, pick.randint(0, 3)),
            metadata=pick.choice(METADATA), importance=pick.random(), created_at=made,
            last_accessed=made, embedding=unit(pick), source=pick.choice((None, "ann")),
            private=pick.random() < 0.2)

    def known(self) -> str:
        return self._random.choice(self._ids) if self._ids else "nobody"

    def step(self) -> str:
        names = ["save", "update", "touch", "get", "search", "list", "info", "scopes", "categories",
                 "count", "delete", "reset"]
        name = self._random.choices(names, [6, 2, 1, 3, 6, 2, 2, 2, 1, 2, 1.5, 0.1])[0]
        getattr(self, f"_{name}")()
        return name

    def _save(self) -> None:
        records = [self.new() for _ in range(self._random.randint(1, 3))]
        self._ids += [one.id for one in records]
        self._theirs.save(records)
        if self._random.random() < 0.5:
            self._ours.save(records)
        else:
            asyncio.run(self._ours.asave(records))

    def _update(self) -> None:
        one = self.new(self.known())
        self._ids.append(one.id)
        for storage in (self._theirs, self._ours):
            storage.update(one)

    def _touch(self) -> None:
        ids = [self.known() for _ in range(2)]
        for storage in (self._theirs, self._ours):
            storage.touch_records(ids)
        found = self._ours.get_record(ids[0])
        assert found is None or found.last_accessed.year > START.year or (
            found.last_accessed > found.created_at)

    def _get(self) -> None:
        id = self.known() if self._random.random() < 0.9 else "nobody"
        assert shown(self._ours.get_record(id)) == shown(self._theirs.get_record(id))

    def _search(self) -> None:
        pick = self._random
        given: dict[str, Any] = {
            "scope_prefix": pick.choice((None, "/", *ABOVE)),
            "categories": pick.choice((None, [], pick.sample(CATEGORIES, 2))),
            "metadata_filter": pick.choice((None, {}, {"k": 1}, {"k": None}, {"k": [1]}))}
        # LanceDB's storage filters what it has found: it may find less than there is.
        is_filtered = given["categories"] or given["metadata_filter"]
        limit = 2000 if is_filtered else pick.choice((1, 5, 50))
        vector = unit(pick)
        theirs = self._theirs.search(vector, limit=limit, **given)
        search = self._ours.search if pick.random() < 0.5 else (
            lambda *a, **k: asyncio.run(self._ours.asearch(*a, **k)))
        ours = search(vector, limit=limit, min_score=-1.0, **given)
        assert [shown(one) for one, _ in ours] == [shown(one) for one, _ in theirs]
        for (_, cosine), (_, score) in zip(ours, theirs, strict=True):
            assert 1 / (3 - 2 * cosine) == pytest.approx(score, abs=1e-4)
        least = pick.uniform(-0.5, 0.9)
        assert [one.id for one, _ in search(vector, limit=limit, min_score=least, **given)] == [
            one.id for one, cosine in ours if cosine >= least]

    def _list(self) -> None:
        given = (self._random.choice((None, "/", *ABOVE)), self._random.choice((0, 3, 200)),
                 self._random.choice((0, 2, 1000)))
        assert without_vector(self._ours.list_records(*given)) == without_vector(
            self._theirs.list_records(*given))

    def _info(self) -> None:
        scope = self._random.choice(("/", *ABOVE))
        assert self._ours.get_scope_info(scope) == self._theirs.get_scope_info(scope)

    def _scopes(self) -> None:
        parent = self._random.choice(("/", *ABOVE))
        assert self._ours.list_scopes(parent) == self._theirs.list_scopes(parent)

    def _categories(self) -> None:
        scope = self._random.choice((None, *ABOVE))
        assert self._ours.list_categories(scope) == self._theirs.list_categories(scope)

    def _count(self) -> None:
        scope = self._random.choice((None, "/", *ABOVE))
        assert self._ours.count(scope) == self._theirs.count(scope)

    def _delete(self) -> None:
        pick = self._random
        old = START + datetime.timedelta(seconds=pick.uniform(0, self._made / 2))
        # LanceDB's storage does not combine all of them, see the page.
        given: dict[str, Any] = pick.choice((
            {"record_ids": [self.known() for _ in range(3)]},
            {"categories": ["diet"], "older_than": old},
            {"categories": ["a.b"], "scope_prefix": pick.choice(ABOVE)},
            {"metadata_filter": {"k": "1"}, "scope_prefix": pick.choice(ABOVE)},
            {"scope_prefix": "/crew/y"}, {"older_than": old}))
        delete = self._ours.delete if pick.random() < 0.5 else (
            lambda **k: asyncio.run(self._ours.adelete(**k)))
        assert delete(**given) == self._theirs.delete(**given)

    def _reset(self) -> None:
        scope = self._random.choice((None, *ABOVE))
        for storage in (self._theirs, self._ours):
            storage.reset(scope)


def test_the_storage_is_as_the_librarys_own(server, tmp_path, operations):
    from crewai.memory.storage.lancedb_storage import LanceDBStorage

    both = Both(LanceDBStorage(tmp_path, vector_dim=SIZE),
                MemorydStorage(uuid.uuid4(), server.target), SEED)
    done = [both.step() for _ in range(operations)]
    assert len(set(done)) >= 11  # Resets are rare.


def test_it_is_a_storage(storage):
    assert isinstance(storage, StorageBackend)


def test_a_record_comes_back_as_it_was_saved(storage):
    one = record("日本 🙂\u2028", scope="/a/", categories=["x", "x"], metadata={"deep": [{"a": None}]},
                 source="ann", private=True, importance=1.0)
    storage.save([one, record("bare", embedding=None)])
    found = storage.get_record(one.id)
    assert found.model_dump() == one.model_dump() and found.embedding == [1.0, 0.0]
    assert [two.content for two in storage.list_records()] == ["bare", "日本 🙂\u2028"]
    assert storage.get_record("nobody") is None and storage.get_record("") is None


def test_scopes_are_whole_names(storage):
    storage.save([record(scope=scope) for scope in ("/", "/ann", "/anna", "/ann/home", "ann/x/")])
    assert storage.count("/ann") == 3 and storage.count("ann/") == 3 and storage.count("/") == 5
    assert storage.list_scopes() == ["/ann", "/anna"]
    assert storage.list_scopes("/ann") == ["/ann/home", "/ann/x"]
    assert storage.delete(scope_prefix="/ann") == 3
    assert sorted(one.scope for one in storage.list_records()) == ["/", "/anna"]


def test_what_is_deleted_has_all_that_is_given(storage):
    old = datetime.datetime(2020, 1, 1)
    storage.save([
        record(id="a", scope="/x", categories=["c"], created_at=old),
        record(id="b", scope="/x", categories=["c"]), record(id="d", scope="/y", created_at=old)])
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(record_ids=["d"], scope_prefix="/x") == 0
    assert storage.delete(record_ids=["a", "b"], older_than=datetime.datetime(
        2021, 1, 1, tzinfo=datetime.timezone.utc)) == 1
    assert storage.delete(record_ids=["a"]) == 0
    assert storage.delete() == 2 and storage.count() == 0


def test_many_records_are_saved_and_found(storage):
    storage.save([record(id=f"{at}", embedding=[1.0, at / 1000]) for at in range(1500)])
    assert storage.count() == 1500
    assert [one.id for one, _ in storage.search([1.0, 0.0], limit=1200)] == [
        f"{at}" for at in range(1200)]
    assert storage.delete(record_ids=[f"{at}" for at in range(1200)]) == 1200


def test_touches_lose_no_update(server):
    memory_id = uuid.uuid4()
    storages = [MemorydStorage(memory_id, server.target) for _ in range(2)]
    storages[0].save([record(id="a"), record(id="b")])

    def touch() -> None:
        for _ in range(30):
            storages[0].touch_records(["a", "b", "gone", ""])

    touching = threading.Thread(target=touch)
    touching.start()
    for at in range(30):
        storages[1].update(record(f"{at}", id="a"))
    touching.join()
    found = storages[1].get_record("a")
    assert found.content == "29" and found.embedding == [1.0, 0.0]


def test_records_are_found_by_their_words_too(server):
    MemorydStorage("words", server.target).save([record("Ann drinks tea."), record("Bob runs.")])
    with Client(server.target) as client:
        found = client.search_items(("crewai", "words"), query="tea", limit=1)
    assert found[0].value["record"]["content"] == "Ann drinks tea."


def test_a_memory_of_a_subject_is_erased_with_it(server):
    subject = f"ann-{uuid.uuid4().hex}"
    storage = MemorydStorage(uuid.uuid4(), server.target, subject=subject)
    storage.save([record()])
    with Client(server.target) as client:
        client.erase_subject(subject)
    assert storage.count() == 0


# Bad input.


def test_an_embedding_of_another_size_is_refused_and_nothing_is_stored(storage):
    assert storage.search([]) == []
    storage.save([record(id="a")])
    for call in (lambda: storage.save([record(id="b"), record(id="c", embedding=[1.0] * 3)]),
                 lambda: storage.save([record(id="b", embedding=[1.0] * 3)]),
                 lambda: storage.update(record(id="a", embedding=[1.0] * 3)),
                 lambda: storage.search([1.0] * 3), lambda: storage.search([])):
        with pytest.raises(EmbeddingDimensionMismatchError, match="contains 2-dim"):
            call()
    assert [one.id for one in storage.list_records()] == ["a"]
    storage.reset()
    storage.save([record(embedding=[1.0] * 3)])


@pytest.mark.parametrize("metadata", [
    {"when": datetime.datetime(2026, 1, 1)}, {"bytes": b"x"}, {"set": {1}}, {"model": record()}])
def test_metadata_that_is_not_json_is_refused(storage, metadata):
    with pytest.raises(TypeError):
        storage.save([record(), record(metadata=metadata)])
    assert storage.count() == 0


@pytest.mark.parametrize("content", ["nul\0", "half \ud800"])
def test_texts_that_json_does_not_hold_are_refused(storage, content):
    with pytest.raises((MemorydError, ValueError)):
        storage.save([record(content)])
    assert storage.count() == 0


def test_a_record_of_5_mb_comes_back(storage):
    one = record("x" * 5_000_000)
    storage.save([one])
    assert storage.get_record(one.id).content == one.content


def test_odd_limits_find_nothing(storage):
    storage.save([record()])
    assert storage.search([1.0, 0.0], limit=0) == [] == storage.list_records(limit=-1)
    assert storage.search([1.0, 0.0], min_score=1.5) == [] == storage.list_records(offset=-1)
    assert storage.delete(record_ids=["nobody", ""]) == 0


def test_a_server_that_is_gone_is_an_error_that_says_so(store):
    with Server(store) as server:
        storage = MemorydStorage("gone", Connection(server.target, timeout=0.5))
        storage.save([record()])
    with pytest.raises(MemorydError) as error:
        storage.count()
    assert error.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


# In CrewAI.


def test_the_example_goes_on_after_it_was_killed(store):
    with Server(store) as server:
        assert programs.run(server.target, str(EXAMPLE), server.target) == SAID


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost or doubled before one and after the next of its calls. A step may be done
    twice: when the kill comes between it and its record."""
    # It takes CrewAI seconds to be imported.
    calls = (4, 5)
    with Server(store) as server:
        for first, second in killed_and_again(EXAMPLE, server.target, calls=calls):
            assert second[-1] == SAID[-1]
            done = [line for line in first + second if line.startswith("now: ")]
            assert list(dict.fromkeys(done)) == SAID[:-1] and len(done) <= len(SAID)
            storage = MemorydStorage("tea", server.target)
            assert sorted(one.content for one in storage.list_records()) == ["boil", "brew", "pour"]
            storage.reset()


def test_the_page():
    assert programs.page("CREWAI.md") == ["Ann drinks tea."]
