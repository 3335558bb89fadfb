"""Profile `default` on random conversations: what holds of every Get and of what blocks come to know,
whatever is put and however often models, embedders and blocks fail."""

from __future__ import annotations

import itertools
import random
import threading

import pytest

from support.blocks import WAIT, block, drained, every_turn
from support.calls import Calls, assistant, memory, user
from support.server import Server
from support.stores import fresh_store

import memoryd

WORKER = "agent"
CONVERSATIONS = 8
STEPS = 20
MEDIA = {"image": 256, "audio": 256, "video": 256, "document": 2048}


class Agent:
    """Models and a block that fail when the dice say so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self.failing = True
        self.answered: list[str] = []  # Facts, in the order answered.
        self.begin(0)

    def begin(self, seed: int) -> None:
        with self._lock:
            self._dice = random.Random(seed)
            self.failing = True
            self.answered = []

    def below(self, limit: int) -> int:
        with self._lock:
            return self._dice.randrange(limit)

    def fail(self, one_in: int) -> None:
        if self.failing and self.below(one_in) == 0:
            raise RuntimeError("not now")

    def complete(self, messages, max_tokens):
        self.fail(3)
        what = self.below(6) if self.failing else 5
        if what < 4:
            return ("", "<facts><fa", "I can't help with that.", "<facts></facts>")[what]
        fact = f"fact number{next(self._numbers)} {' word' * self.below(6)}".strip()
        self.answered.append(fact)
        return f"<facts><fact>{fact}</fact></facts>"

    def embed(self, texts, purpose):
        self.fail(4)
        return [[1.0, float(len(text) % 7), float(len(text) % 3)] for text in texts]


class Seen(memoryd.Block):
    """Remembers the ids of all it is fed, and says some words."""

    name = "seen"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.state: list[str] | None = None  # As of the last Get.

    def put(self, messages, state):
        self._agent.fail(3)
        return (state or []) + [message.message_id for message in messages]

    def get(self, messages, state):
        self.state = state
        self._agent.fail(4)
        return " ".join(["said"] * self._agent.below(12)) or None

    def truncate(self, content, tokens):
        self._agent.fail(3)
        # Sometimes too little, sometimes more than there was.
        return " ".join(["cut"] * self._agent.below(14)) or None


@pytest.fixture(scope="module")
def agent():
    return Agent()


@pytest.fixture(scope="module")
def seen(agent):
    return Seen(agent)


@pytest.fixture(scope="module")
def calls(store_kind, agent, seen):
    arguments = ["--job-retry-ms=1", "--job-attempts=1000"]
    with (fresh_store(store_kind) as store, Server(store, arguments=arguments) as server,
          memoryd.Worker(server.target, name=WORKER, blocks=[seen],
                         models={"chat": agent.complete}, embedders={"embed": agent.embed}),
          server.channel() as channel):
        yield Calls(channel)


class Conversation:
    """Random messages of a user, a model that thinks and calls tools, and the tools."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._open: list[str] = []  # Calls without a result.
        self._calls = 0
        self.begun = False

    def _words(self, most: int) -> str:
        return " ".join(f"w{self._dice.randrange(99)}" for _ in range(self._dice.randint(1, most)))

    def next(self) -> list[memory.Message]:
        dice = self._dice
        made = []
        if not self.begun and dice.random() < 0.5:
            made.append(memory.Message(role=dice.choice(["system", "developer"]),
                                       text=self._words(6)))
        self.begun = True
        for _ in range(dice.randint(1, 4)):
            what = dice.random()
            if self._open and what < 0.3:
                # Late now and then, and some never come.
                call_id = self._open.pop(dice.randrange(len(self._open)))
                result = memory.ToolResult(call_id=call_id, name="search", text=self._words(9))
                made.append(memory.Message(role="tool", parts=[memory.Part(tool_result=result)]))
            elif what < 0.6:
                made.append(user(self._words(12)))
            elif what < 0.75:
                parts = [memory.Part(text=self._words(4))] * dice.randint(0, 1)
                parts += [memory.Part(thinking=memory.Thinking(text=self._words(8)))] * dice.randint(
                    0, 1)
                for _ in range(dice.randint(1, 2)):
                    self._calls += 1
                    call_id = f"call-{self._calls}"
                    self._open.append(call_id)
                    parts.append(memory.Part(tool_call=memory.ToolCall(
                        call_id=call_id, name="search", arguments_json='{"q": "a b c"}')))
                made.append(memory.Message(role="assistant", parts=parts))
            elif what < 0.8:
                media = memory.Media(url="https://example.com/a.png")
                if dice.random() < 0.8:
                    media.token_count = dice.randint(0, 12)
                kind = dice.choice(list(MEDIA))
                made.append(memory.Message(role="user", parts=[
                    memory.Part(**{kind: media}), memory.Part(text=self._words(3))]))
            else:
                made.append(assistant(self._words(12)))
        return made


def part_tokens(part: memory.Part) -> int:
    kind = part.WhichOneof("kind")
    value = getattr(part, kind)
    if kind in MEDIA:
        return value.token_count if value.HasField("token_count") else MEDIA[kind]
    texts = {"text": lambda: [value], "thinking": lambda: [value.text],
             "tool_call": lambda: [value.name, value.arguments_json],
             "tool_result": lambda: [value.name, value.text]}[kind]()
    return sum(len(text.split()) for text in texts)


def parts_of(message: memory.Message) -> list[memory.Part]:
    return [memory.Part(text=message.text)] if message.HasField("text") else list(message.parts)


def tokens_of(message: memory.Message) -> int:
    return 4 + sum(map(part_tokens, parts_of(message)))


def ids(message: memory.Message, kind: str) -> list[str]:
    return [getattr(p, kind).call_id for p in message.parts if p.WhichOneof("kind") == kind]


def begins_turn(message: memory.Message) -> bool:
    return message.role == "user" and not ids(message, "tool_result")


def whole_units(active: list[memory.Message]) -> list[list[memory.Message]]:
    """The units that a Get may show: calls with all their results, the newest also without."""
    units: list[list[memory.Message]] = []
    open_calls: dict[str, list[memory.Message]] = {}
    for message in active:
        answered = ids(message, "tool_result")
        unit = open_calls.get(answered[0]) if answered else []
        if unit:
            unit.append(message)
        elif not answered:
            units.append([message])
            open_calls |= dict.fromkeys(ids(message, "tool_call"), units[-1])
    return [unit for unit in units
            if len(unit) == 1 + len(ids(unit[0], "tool_call")) or unit is units[-1]]


def possible_contexts(log: list[memory.Message]) -> list[list[memory.Message]]:
    """What a Get may show of a session whose messages, oldest first, are `log`, behind its pinned
    messages: all of it first, then less and less as docs/POLICY.md says."""
    pinned = list(itertools.takewhile(lambda m: m.role in ("system", "developer"), log))
    rest = log[len(pinned):]
    active = [m for m in rest if m.status == memory.MESSAGE_STATUS_ACTIVE]
    left = [m for m in rest if m.status == memory.MESSAGE_STATUS_ARCHIVED]
    units = whole_units(active)
    openings = [m for m in left if begins_turn(m)]
    if openings and not (active and begins_turn(active[0])):
        units.insert(0, openings[-1:])
    human = [i for i, unit in enumerate(units) if begins_turn(unit[0])]
    if human:
        units = units[human[0]:]
    contexts = [units]
    turns = [i for i, unit in enumerate(units) if i > 0 and begins_turn(unit[0])]
    contexts += [units[i:] for i in turns]
    opened = 1 if contexts[-1] and begins_turn(contexts[-1][0][0]) else 0
    while len(contexts[-1]) > opened + 1:
        contexts.append(contexts[-1][:opened] + contexts[-1][opened + 1:])
    return [[m for unit in context for m in unit] for context in contexts]


def check_context(reply, log: list[memory.Message], config: memory.SessionConfig) -> None:
    """What holds of a Get of a session whose messages, oldest first, are `log`."""
    pinned = list(itertools.takewhile(lambda m: m.role in ("system", "developer"), log))
    assert all(m.status == memory.MESSAGE_STATUS_ACTIVE for m in pinned)
    given = [m.message_id for m in reply.messages if m.message_id]
    possible = [[m.message_id for m in pinned + context] for context in possible_contexts(log)]
    assert given in possible
    begin = possible.index(given)

    # Every part of what is returned counts.
    counted = sum(map(tokens_of, reply.messages))
    inserted = [p.text for m in reply.messages for p in parts_of(m) if p.text.startswith("<memory>")]
    into_another = bool(inserted) and all(m.message_id for m in reply.messages)
    assert reply.token_count == counted + (4 if into_another else 0)
    assert bool(inserted) == bool(reply.blocks_used)

    # Within the limit, or what opens the newest turn and its newest unit are above it.
    assert reply.over_limit_tokens == max(0, reply.token_count - config.token_limit)
    priorities = {b.name: b.priority for b in config.blocks}
    if begin > 0 or reply.over_limit_tokens:
        assert all(priorities[name] == 0 for name in reply.blocks_used)
    if reply.over_limit_tokens:
        assert given == possible[-1]
    assert not set(reply.blocks_used) & set(reply.blocks_dropped)
    assert set(reply.blocks_used) | set(reply.blocks_dropped) <= set(priorities)


@pytest.mark.parametrize("seed", range(CONVERSATIONS))
def test_random_conversations_keep_the_rules(calls, agent, seen, session_id, seed):
    dice = random.Random(seed)
    agent.begin(seed)
    config = every_turn(
        block("core", "static", dice.choice([0, 2]), content=["The user is called Ada."]),
        block("facts", "fact-extraction", 1, worker=WORKER, model="chat", max_facts=250),
        block("vectors", "vector", dice.choice([1, 3]), worker=WORKER, embedder="embed"),
        block("seen", "worker", 2, worker=WORKER),
        token_limit=(limit := dice.choice([20, 60, 120, 300])),
        token_flush_size=min(limit, dice.choice([1, 15, 60])),
        chat_history_token_ratio=dice.choice([0.2, 0.5, 0.7, 1.0]),
        insert_method=dice.choice([memory.INSERT_METHOD_SYSTEM, memory.INSERT_METHOD_USER]),
    )
    calls.CreateSession(session_id=session_id, config=config)
    conversation, put = Conversation(dice), []
    for step in range(STEPS):
        made = conversation.next()
        wait = {"wait": WAIT} if dice.random() < 0.3 else {}
        reply = calls.Put(session_id=session_id, messages=made, **wait)
        put += zip(reply.message_ids, made, strict=True)
        log = calls.all_messages(session_id)
        assert [m.message_id for m in log] == [message_id for message_id, _ in put], step
        said = {"input": "w1 w2"} if dice.random() < 0.3 else {}
        context = calls.Get(session_id=session_id, **said)
        check_context(context, log, config)

    # What was put is there, and in its order.
    for stored, (_, given) in zip(log, put, strict=True):
        assert (stored.role, parts_of(stored)) == (given.role, parts_of(given))

    # All that failed has been made up for.
    agent.failing = False
    jobs = drained(calls, session_id)
    assert {job.state for job in jobs} <= {2}, jobs
    archived = [m.message_id for m in log if m.status == memory.MESSAGE_STATUS_ARCHIVED]
    assert archived == [m.message_id for m in log
                        if m.role not in ("system", "developer")][:len(archived)]
    del config.blocks[0]
    config.token_limit = 1_000_000
    calls.UpdateSession(session_id=session_id, config=config)
    context = calls.Get(session_id=session_id)
    assert (seen.state or []) == archived
    text = "\n".join(p.text for m in context.messages for p in parts_of(m))
    lost = [fact for fact in agent.answered if f"<fact>{fact}</fact>" not in text]
    assert not lost and len(set(agent.answered)) == text.count("<fact>")
