"""What the documents say in shell, grpcurl and Python, run as it stands there, on both stores."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from support.blocks import block, every_turn, turn
from support.calls import Calls, memory, user
from support.documents import HERE, Block, Reader, blocks_of
from support.model_server import DIMENSIONS, ModelServer
from support.paths import REPOSITORY
from support.server import Server
from support.stores import fresh_store

sys.path.insert(0, str(REPOSITORY / "tools"))

import docs_site

from memoryd import Client, blocks, config

README = REPOSITORY / "README.md"
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
DOCS = REPOSITORY / "docs"
QUICKSTARTS = DOCS / "quickstart"
PACKAGE = REPOSITORY / "clients" / "python" / "README.md"
WORKERS = PACKAGE.with_name("WORKERS.md")
USERS = PACKAGE.with_name("USERS.md")
PROCESSES = PACKAGE.with_name("PROCESSES.md")
WORKED_EXAMPLE = "A worked example"
MOST_LINES = 250
# At the root, as pages name them.
FOLDERS = "cli|clients|core|deploy|docs|examples|proto|server|tests|tools"
# Stand for something in the documents.
A_JOB, A_CHANGE = "5f0c…-7-facts", '"change":7'


@pytest.fixture
def models():
    with ModelServer(["<facts><fact>Logan is here.</fact></facts>"]) as server:
        yield server


@pytest.fixture
def here(store, models, tmp_path):
    """A server with the models that the documents name."""
    common = {"url": models.url, "model": "m", "allow_private": True}
    embedding = {"kind": "embedding", "dimensions": DIMENSIONS, **common}
    file = tmp_path / "models.yaml"
    file.write_text(json.dumps({"models": [  # JSON is YAML.
        {"name": "chat", "kind": "chat", **common}, {"name": "embedder", **embedding},
        {"name": "minilm", **embedding}]}))
    with Server(store, arguments=[f"--config={file}", "--metrics-listen=127.0.0.1:0"]) as server:
        yield server


@pytest.fixture
def calls(here):
    with here.channel() as channel:
        yield Calls(channel)


@pytest.fixture
def reader(here, models, store, store_kind, tmp_path):
    folder = tmp_path / "reader"
    folder.mkdir()
    with fresh_store(store_kind) as others, Server(others) as other:
        yield Reader(folder, here, other, models, store)


Prepare = Callable[[], Mapping[str, str] | None]


def read(reader: Reader, document: pathlib.Path, prepare: Mapping[str, Prepare] | None = None,
         without: str = "") -> Callable[[str], str]:
    """Runs all blocks of a document but those under one heading, and compares what they print with
    the blocks of their output. Before a block that has a key of `prepare` in it, that is called, and
    says what to replace. Gives the output of the one block that has some words in it."""
    prepare = prepare or {}
    said: list[tuple[Block, str]] = []
    prepared = set()
    for found in blocks_of(document):
        if found.heading == without:
            continue
        if "output" in found.words:
            assert said[-1][1] == found.code, f"{found.place}: {said[-1][1]!r} was printed"
            continue
        replacements: dict[str, str] = {}
        for words, action in prepare.items():
            if words in found.code:
                prepared.add(words)
                replacements.update(action() or {})
        said.append((found, reader.run(found, replacements)))
    assert prepared == set(prepare)

    def of(words: str) -> str:
        output, = (output for found, output in said if words in found.code)
        return output
    return of


def take_the_tour(reader: Reader) -> None:
    """What other documents take to be there."""
    tour, = (found for found in blocks_of(QUICKSTARTS / "grpc.md")
             if "describe memoryd" in found.code)
    reader.run(tour)


def test_the_readme(reader):
    said = read(reader, README)
    assert said("What may I offer").endswith("I drink tea, never coffee.\n")
    assert "Logan is here." in said("OpenAI()")
    assert "A drink, please." in said("to_openai()")


def test_the_picture_of_the_readme_is_what_a_model_gets(here, models):
    picture, = (found.code for found in blocks_of(README) if "<memoryd_recall>" in found.code)
    shown: list[list[str]] = []
    for line in picture.splitlines():
        role, text = line[:11].strip(), line[11:61].strip()
        if role:
            shown.append([role, ""])
        shown[-1][1] += text + " "
    models.set_replies(["<facts><fact>Ann drinks tea, never coffee.</fact></facts>"])
    facts = config(blocks=[blocks.facts(model="chat")])
    with Client(here.target) as client:
        client.remember("ann", ["I drink tea, never coffee.", "I live in Lisbon."], memory=facts, wait=60)
        context = client.context("ann", "monday", [{"role": "user", "content": "A drink, please."}])
    got = [[message["role"], message["content"]] for message in context.to_openai()]
    assert [[role, plain(text)] for role, text in shown[:3]] == [[role, plain(text)] for role, text in got]


def plain(text: str) -> str:
    """Without what a picture may have otherwise: space and dates."""
    return re.sub(r"\s+", "", re.sub(r'date="[^"]*"', "", text))


def test_the_quick_start_has_five_lines():
    first = next(found for found in blocks_of(README) if found.language == "python")
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 5


def test_the_quickstarts(reader):
    said = read(reader, QUICKSTARTS / "python.md")
    assert "Paris." in said("memoryd.local(")
    assert said('"s2"').endswith("What is the capital of France?\n")
    assert said('"s3"') == "c1 weather\n"
    assert "Answer in French." in said('"s4"')
    assert said('"s5"') == "ABORTED REVISION_MISMATCH\n"
    read(reader, QUICKSTARTS / "cpp.md")


def test_the_quickstart_of_grpc(reader):
    assert '"What is the capital of France?"' in read(
        reader, QUICKSTARTS / "grpc.md")("describe memoryd")


def test_the_cookbook(reader, models):
    cookbook = DOCS / "COOKBOOK.md"
    models.set_replies(["<facts><fact>Logan is thinking about a schnauzer.</fact></facts>"])
    said = read(reader, cookbook)
    assert "My name is Logan" in said('"core_info"')
    fences = blocks_of(cookbook)
    for fence, after in itertools.pairwise(fences):
        assert fence.language != "python" or "output" in after.words, fence.place


def test_the_readme_of_the_package(reader, calls):
    def messages_with_topics() -> None:
        calls.DeleteSession(session_id="s1")
        calls.Put(session_id="s1", messages=[user(" Lyon", metadata_json='{"topic":"home"}'),
                                             user("Tea", metadata_json='{"topic":"drinks"}')])

    said = read(reader, PACKAGE, {"MetadataTest": messages_with_topics})
    first = said("memory.get(\"s1\")").splitlines()
    assert first[0] == "user Hello, world!" and first[1].endswith("Likes tea.")
    assert said("AsyncClient(").splitlines() == ["user Hello, world!", "user Hello again!"]
    assert said("memoryd.local(") == "user Hello, world!\n"
    assert said("MetadataTest") == " Lyon\n1\n"
    assert said("fork_session") == "1 1\n"
    assert int(said("ssl_channel_credentials")) > 0
    assert said("blocks.static(") == "4000 ['static', 'facts', 'vector']\n"
    assert said("hit.kind").splitlines()[0] == "message user I drink tea, never coffee. True"
    assert said("memory.remember") == "True I drink tea, never coffee.\n"
    assert read(reader, WORKERS)("OpenAI()") == "<facts><fact>Logan is here.</fact></facts>\n"
    assert read(reader, PROCESSES)("traceparent") == "s1\n"


def test_memory_of_users(reader):
    said = read(reader, USERS)
    told = said("memory.remember").splitlines()
    assert told[0] == "user I drink tea, never coffee. True"
    assert told[1] == "<memoryd_recall>" and ">I drink tea, never coffee.</message>" in told[2]
    assert said("of_user") == "['facts']\n"


def test_the_frameworks(reader):
    assert "Hello, world!" in read(reader, PACKAGE.with_name("LLAMA_INDEX.md"))("from_defaults")
    assert read(reader, PACKAGE.with_name("LANGCHAIN.md"))("save_context") == "Hello Alice!\n"
    assert "schnauzer" in read(reader, PACKAGE.with_name("AUTOGEN.md"))("ListMemory(")
    assert read(reader, PACKAGE.with_name("LANGGRAPH.md"))("MemorydSaver(") == "3 tea\n"
    assert "Noted." in read(reader, PACKAGE.with_name("OPENAI_AGENTS.md"))("MemorydSession(")
    assert "Noted." in read(reader, PACKAGE.with_name("PYDANTIC_AI.md"))("store.save(")
    assert "diet.md" in read(reader, PACKAGE.with_name("ANTHROPIC.md"))("MemorydMemoryTool(")


def test_blocks(reader):
    take_the_tour(reader)
    said = read(reader, DOCS / "BLOCKS.md")
    assert said("user:ann") == "I drink tea, never coffee. user:ann monday\n"
    assert "Ben is allergic to nuts." in said("user:ben")


def test_exports(reader):
    take_the_tour(reader)
    said = read(reader, DOCS / "EXPORT.md")
    assert "4 sessions, 2 messages, 0 contents, 0 sessions skipped" in said("memoryd export")
    assert '"moved"' in said("ImportSession")
    assert said("there.import_session") == "1\n"


def test_models_and_jobs(reader, calls, models):
    take_the_tour(reader)

    def make_anew(config: memory.SessionConfig) -> None:
        calls.DeleteSession(session_id="s1")
        for number in range(4):
            calls.Put(session_id="s1", messages=turn(f"Turn {number}"), config=config)

    def first_job(state: str = "JOB_STATE_OPEN") -> dict[str, str]:
        return {A_JOB: calls.ListJobs(session_id="s1", state=state).jobs[0].job_id}

    def jobs_of_nobody() -> dict[str, str]:
        make_anew(every_turn(block("facts", "worker", worker="nobody")))
        return first_job()

    def given_up() -> dict[str, str]:
        calls.CancelJob(session_id="s1", job_id=first_job()[A_JOB])
        return first_job("JOB_STATE_CANCELLED")

    def a_fact_replaced() -> dict[str, str]:
        models.set_replies(['<facts><fact evidence="1" replaces="1">A dog.</fact></facts>', "none"])
        calls.DeleteSession(session_id="s1")
        for text in ("My cat is a dog now", "What is it?"):
            reply = calls.Put(
                session_id="s1", messages=turn(text), wait={"seconds": 25},
                config=every_turn(block("facts", "fact-extraction", model="chat", facts=["A cat."])))
            assert not reply.open_jobs
        change, = calls.GetBlock(session_id="s1", block="facts").facts.history
        return {A_CHANGE: f'"change":{change.change}'}

    said = read(reader, DOCS / "MODELS.md", {
        "JOB_STATE_OPEN": jobs_of_nobody, "RetryJob": given_up, "CancelJob": first_job,
        "UndoBlockChange": a_fact_replaced})
    assert "JOB_STATE_CANCELLED" in said("CancelJob")
    assert said("UndoBlockChange").count('"text": "A cat."') == 2


def test_what_an_operator_types(reader):
    take_the_tour(reader)
    for page in ("CONFIGURATION.md", "TENANTS.md", "CAPACITY.md", "MONITORING.md", "STORES.md", "SCALE.md",
                 "DEPLOY.md"):
        read(reader, DOCS / page)
    read(reader, DOCS / "ACCESS.md", without=WORKED_EXAMPLE)
    read(reader, DOCS / "COMMAND_LINE.md")
    assert (reader.folder / "memory.jsonl").read_text().count("{\"session\":") >= 3
    assert read(reader, DOCS / "OPERATIONS.md")("GROUP BY tenant")


def test_erasure_and_retention(reader):
    said = read(reader, DOCS / "RETENTION.md")
    assert "1 sessions, 1 messages" in said("memoryd erase --subject ada --yes")
    assert said("memory.erase_subject") == "0\n"
    assert "purged" in said("SessionService/EraseSubject")
    assert "expire" in said("Until the 30th day.")


def test_the_worked_example_of_tls_and_a_token(store_kind, reader):
    started, arguments, digest = [], [], ""
    for found in blocks_of(DOCS / "ACCESS.md"):
        if found.heading != WORKED_EXAMPLE:
            continue
        if found.language == "yaml":
            file = reader.folder / "credentials.yaml"
            file.write_text(re.sub(r"3f0c1a….*", digest.split()[0], found.code))
            file.chmod(0o600)
        elif "serves" in found.words:
            _, listen, *given = shlex.split(found.code)
            assert listen == "--listen=0.0.0.0:50051"
            arguments = [argument.replace("=", f"={reader.folder}/") for argument in given]
        elif HERE in found.code:
            with fresh_store(store_kind) as store, \
                    Server(store, listen="localhost:0", arguments=arguments) as server:
                started.append(reader.run(
                    found, {"-import-path proto": f"-import-path {REPOSITORY / 'proto'}"},
                    target=server.target))
        else:
            digest = reader.run(found)
    put, = started
    assert "positions" in put


def test_pages_are_short():
    """But for the benchmarks, most of which is written by their program."""
    pages = [README, CONTRIBUTING, *DOCS.glob("*.md"), *QUICKSTARTS.glob("*.md")]
    long = {page.name: lines for page in pages
            if (lines := len(page.read_text(encoding="utf-8").splitlines())) > MOST_LINES}
    assert set(long) == {"BENCHMARKS.md"}


def targets_of_make() -> dict[str, list[str]]:
    """What `make help` lists, by section."""
    listed = subprocess.run(["make", "--silent", "help"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    return {section.partition("\n")[0]: re.findall(r"^  make (\S+) +\S", section, re.MULTILINE)
            for section in listed.split("\n\n")}


def targets_in(text: str) -> set[str]:
    """The targets that a page's code names."""
    return set(re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", text, re.MULTILINE))


def test_the_index_of_decisions_is_complete():
    """Each record by its number and title, and each number without a record."""
    folder = DOCS / "adr"
    wanted = {}
    for file in folder.glob("[0-9]*.md"):
        number, title = re.match(r"# (\d+)\. (.*)", file.read_text(encoding="utf-8")).groups()
        assert file.name.startswith(f"{int(number):04}-"), file.name
        wanted[int(number)] = f"[{title}]({file.name})"
    assert len(wanted) == len(list(folder.glob("[0-9]*.md")))
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (.+) \|$", (folder / "README.md").read_text(encoding="utf-8"),
                      re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, max(wanted) + 1))
    assert {int(number): entry for number, entry, _ in rows if entry != "not used"} == wanted


def test_make_help_lists_every_target():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    phony = re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    assert phony is not None
    listed = [target for targets in targets_of_make().values() for target in targets]
    assert sorted(listed) == sorted(phony[1].split())


def test_pages_name_targets_that_there_are():
    sections = targets_of_make()
    assert targets_in(README.read_text(encoding="utf-8")) <= set(sections["For users"])
    there = {target for targets in sections.values() for target in targets}
    for name in docs_site.found(docs_site.PATTERNS):
        assert targets_in((REPOSITORY / name).read_text(encoding="utf-8")) <= there, name


def test_pages_for_contributors_name_what_there_is():
    """Files by their path from the root, and tests by name."""
    patterns = ("core/**/*_test.cc", "server/**/*_test.cc", "tests/**/*.py")
    tests = [file.read_text(encoding="utf-8") for pattern in patterns
             for file in REPOSITORY.glob(pattern)]
    names = set(re.findall(r"\bdef (test_\w+)|\bTEST(?:_[FP])?\(\w+, (\w+)", "\n".join(tests)))
    for page in (CONTRIBUTING, DOCS / "STYLE.md"):
        text = page.read_text(encoding="utf-8")
        for path in re.findall(rf"`((?:{FOLDERS})/[\w./]+)`", text):
            assert list(REPOSITORY.glob(f"{path.rstrip('/')}*")) or re.search(r"NAME|\bX_", path), path
        assert set(re.findall(r"`(test_\w+)`|(?<=Forgotten: `)([A-Z][a-z]\w+)(?=`)", text)) <= names


def test_no_link_leads_nowhere():
    assert docs_site.wrong_links() == []


def test_links_of_llms_txt_are_those_of_the_site():
    said = docs_site.links_of_pages("[a](docs/A.md#b), [c](clients/README.md), [d](README.md), [e](e.md.txt)")
    assert said == "[a](docs/A/#b), [c](clients/), [d](./), [e](e.md.txt)"


def test_what_fails_is_seen(reader):
    """As far as a test of documents can be wrong, it says so."""
    for language, code in (("sh", "false | true"), ("sh", "grpcurl -plaintext localhost:50051 x.Y/Z"),
                           ("python", "1 / 0"), ("yaml", "listn: nowhere"), ("shell", "true"),
                           ("sql", "SELECT 1 FROM nowhere")):
        with pytest.raises(AssertionError):
            reader.run(Block("here", "", language, frozenset(), code))
