"""The image as it is built: what is in it, how it runs, what it keeps."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tarfile
import tempfile
import threading
import time

import grpc
from grpc_health.v1 import health_pb2

from container import (
    GRACE_SECONDS,
    IMAGE,
    RESTRICTED,
    USER_ID,
    Container,
    podman,
    run_to_end,
)
from support import tls
from support.calls import Calls, refusal, user
from support.hardening import check_hardened, readelf
from support.paths import REPOSITORY
from support.postgres import temporary_database
from support.reflection import Reflection
from support.server import wait_for_health

import memoryd  # Made importable by support.

LARGEST_IMAGE_BYTES = 100 * 10**6


def texts(calls: Calls, session_id: str) -> list[str]:
    return [message.text for message in calls.Get(session_id=session_id).messages]


def test_says_that_it_is_healthy(running):
    with running.channel() as channel:
        for service in ("", "liveness", "memoryd.v1.MemoryService"):
            wait_for_health(channel, health_pb2.HealthCheckResponse.SERVING, 20, service)


def test_answers_through_reflection(running):
    with running.channel() as channel:
        server = Reflection(channel)
        assert {"memoryd.v1.MemoryService", "memoryd.v1.SessionService"} <= server.services()

        put = '{"session_id":"s1","messages":[{"role":"user","text":"Hello, world!"}]}'
        assert "revision" in server.call("MemoryService/Put", put)
        got = server.call("MemoryService/Get", '{"session_id":"s1"}')
    assert [m["text"] for m in got["messages"]] == ["Hello, world!"]
    # The vocabulary is in the image: "Hello, world!" is 4 tokens, and 4 more for the message.
    assert int(got["token_count"]) == 4 + 4


def test_runs_as_nobody_in_particular_without_any_privilege(running):
    status = running.process_status()
    assert set(status["Uid"].split()) == {USER_ID}
    assert set(status["Gid"].split()) == {USER_ID}
    assert [int(status[key], 16) for key in ("CapEff", "CapPrm", "CapBnd", "CapAmb")] == [0] * 4
    assert status["NoNewPrivs"] == "1"


def test_writes_nothing_but_its_database(running):
    info = running.inspect()
    assert info["HostConfig"]["ReadonlyRootfs"]
    mounts = [mount["Destination"] for mount in info["Mounts"]]
    assert mounts == ["/var/lib/memoryd"]
    written = podman("diff", "--format", "json", running.name)
    changed = json.loads(written) if written else {}
    # Mount points that the engine itself makes, where there is no folder.
    made = {"/etc", "/run", "/dev", "/proc", "/sys", "/var", "/var/lib", "/var/lib/memoryd"}
    assert [
        path for path in changed.get("added", []) + changed.get("changed", [])
        if path not in made and not path.startswith(("/etc/", "/run/"))
    ] == []


def test_a_restart_keeps_what_was_acknowledged(volume):
    with Container(volume=volume) as first, first.channel() as channel:
        Calls(channel).Put(session_id="kept", messages=[user("before the stop")])
        assert first.stop() == 0
    with Container(volume=volume) as second, second.channel() as channel:
        calls = Calls(channel)
        assert texts(calls, "kept") == ["before the stop"]
        calls.Put(session_id="kept", messages=[user("before the kill")])
        second.kill()
    with Container(volume=volume) as third, third.channel() as channel:
        assert texts(Calls(channel), "kept") == ["before the stop", "before the kill"]


def test_sigterm_ends_it_with_0_within_the_grace_period(volume):
    with Container("--drain-seconds=5", volume=volume) as container:
        assert container.stop() == 0, container.output()
        state = container.inspect()["State"]
        assert state["ExitCode"] == 0 and not state["OOMKilled"]
        assert "drained" in container.output()
    assert GRACE_SECONDS > 5 + 2  # A stuck drain ends before podman loses its patience.


def test_a_client_sees_no_error_while_containers_replace_each_other(volume, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    acknowledged: list[str] = []
    put = threading.Semaphore(0)
    stop = threading.Event()

    def agent() -> None:
        with memoryd.Client(listen, timeout=60) as memory:
            while not stop.is_set():
                text = f"message {len(acknowledged)}"
                memory.put("loaded", [memoryd.message("user", text)])
                acknowledged.append(text)
                put.release()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            for number in range(3):
                with Container("--drain-seconds=5", volume=volume, listen=listen) as container:
                    if number == 0:
                        going_on = pool.submit(agent)
                    for _ in range(200):
                        assert put.acquire(timeout=60), going_on.exception(0)
                    begin = time.monotonic()
                    assert container.stop() == 0, container.output()
                    print(f"SIGTERM under load: ended in {time.monotonic() - begin:.1f} s")
        finally:
            stop.set()
            with Container(volume=volume, listen=listen) as container, container.channel() as channel:
                going_on.result(60)
                stored = [m.text for m in Calls(channel).all_messages("loaded")]
    assert stored == acknowledged
    print(f"{len(acknowledged)} Puts over 3 ends, errors 0, lost 0")


def test_serves_over_postgresql_found_by_name(volume):
    with temporary_database() as url:
        # The name goes through the C library of the image, and its hosts file.
        url = url.replace("127.0.0.1", "localhost")
        with Container(f"--store={url}") as container, container.channel() as channel:
            calls = Calls(channel)
            calls.Put(session_id="p", messages=[user("over PostgreSQL")])
            assert texts(calls, "p") == ["over PostgreSQL"]
            assert container.stop() == 0


def test_serves_tls_to_bearers_of_a_token_from_mounted_secrets(volume, tmp_path):
    authority = tls.Authority(tmp_path / "ca")
    identity = authority.issue(tls.SERVER_NAMES)
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "tls.crt").write_bytes(identity.certificate.read_bytes())
    (folder / "tls.key").write_bytes(identity.key.read_bytes())
    digest = hashlib.sha256(b"a token").hexdigest()
    (folder / "credentials.yaml").write_text(
        f"[{{tenant: team, rights: [read, write], token_sha256: {digest}}}]", encoding="ascii"
    )
    # As a Kubernetes Secret with fsGroup and defaultMode: 0440 is mounted.
    for file in folder.iterdir():
        os.chown(file, 0, int(USER_ID))
        file.chmod(0o440)

    with Container(
        "--tls-cert=/secrets/tls.crt",
        "--tls-key=/secrets/tls.key",
        "--credentials=/secrets/credentials.yaml",
        volume=volume,
        options=[f"--volume={folder}:/secrets:ro"],
    ) as container:
        root = authority.certificate
        with tls.secure_channel(container.target, root, token="a token") as channel:
            calls = Calls(channel)
            calls.Put(session_id="tls", messages=[user("sealed")])
            assert texts(calls, "tls") == ["sealed"]
        with tls.secure_channel(container.target, root) as channel:
            error = refusal(Calls(channel).Get, session_id="tls")
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_published_port_needs_a_word(volume):
    refused = run_to_end("--listen=0.0.0.0:50051", options=RESTRICTED)
    assert refused.returncode == 2
    wanted = "memoryd: listen: 0.0.0.0:50051 can be reached from other machines without TLS; "
    assert refused.stderr.startswith(wanted), refused.stderr
    with Container(
        "--allow-plaintext=true",
        volume=volume,
        network="bridge",
        listen="0.0.0.0:50051",
        options=["--publish=127.0.0.1::50051"],
    ) as container:
        container.target = podman("port", container.name, "50051/tcp")
        with container.channel() as channel:
            calls = Calls(channel)
            calls.Put(session_id="published", messages=[user("from outside")])
            assert texts(calls, "published") == ["from outside"]


def test_a_root_that_cannot_be_written_and_no_volume_is_a_clear_error():
    ended = run_to_end(
        "--store=sqlite:/elsewhere/memoryd.db", options=[*RESTRICTED, "--network=host"]
    )
    assert ended.returncode == 1
    assert re.match(r"memoryd: .*/elsewhere", ended.stderr.splitlines()[-1]), ended.stderr


def test_labels_say_what_it_is():
    labels = json.loads(podman("image", "inspect", IMAGE))[0]["Labels"]
    assert labels["org.opencontainers.image.title"] == "memoryd"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.match("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])
    version = run_to_end("--version").stdout.strip()
    assert version == f"memoryd {labels['org.opencontainers.image.version']}"
    listed = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f"project(memoryd VERSION {labels['org.opencontainers.image.version']} " in listed


def test_holds_only_what_is_needed(tmp_path):
    name = podman("create", "--network=host", IMAGE)
    exported = tmp_path / "image.tar"
    try:
        podman("export", "--output", str(exported), name)
    finally:
        podman("rm", "--force", "--volumes", name)
    with tarfile.open(exported) as archive:
        members = archive.getmembers()
    files = [member for member in members if member.isfile()]
    assert [m.name for m in files if m.mode & 0o6000] == []
    programs = [
        m.name
        for m in files
        if m.mode & 0o111 and ".so" not in m.name and not m.name.startswith(("etc/", "run/"))
    ]
    assert programs == ["opt/memoryd/bin/memoryd"]
    # For scanners and for the licences: every package, each with both files.
    packages = {m.name.rsplit("/", 1)[1] for m in files if "dpkg/status.d/" in m.name}
    licences = {m.name.split("/")[-2] for m in files if m.name.endswith("/copyright")}
    assert {"libc6", "libgrpc++1.51t64", "libpq5", "libssl3t64", "libsqlite3-0"} <= packages
    assert packages == licences

    by_folder: dict[str, int] = {}
    for member in files:
        top = "/".join(member.name.split("/")[:3])
        by_folder[top] = by_folder.get(top, 0) + member.size
    total = sum(by_folder.values())
    print(f"image: {total / 1e6:.1f} MB, {len(packages)} packages")
    for top, size in sorted(by_folder.items(), key=lambda item: -item[1])[:6]:
        print(f"  {size / 1e6:6.1f} MB  {top}")
    assert total < LARGEST_IMAGE_BYTES


def taken_from(image: str, path: str, folder) -> pathlib.Path:
    """A copy of a file or folder of the image, in a folder of its own in `folder`."""
    copies = pathlib.Path(tempfile.mkdtemp(dir=folder))
    name = podman("create", "--network=host", image)
    try:
        podman("cp", f"{name}:{path}", str(copies))
    finally:
        podman("rm", "--force", "--volumes", name)
    return copies / pathlib.Path(path).name


def test_the_binary_is_hardened(tmp_path):
    binary = taken_from(IMAGE, "/opt/memoryd/bin/memoryd", tmp_path)
    check_hardened(binary)
    assert not re.search("RPATH|RUNPATH", readelf(binary, "--dynamic"))


def test_the_bill_of_materials_names_what_is_in_it(tmp_path):
    path = taken_from(IMAGE, "/opt/memoryd/share/sbom/memoryd.spdx.json", tmp_path)
    bill = json.loads(path.read_text(encoding="utf-8"))
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["dataLicense"] == "CC0-1.0"
    packages = {package["name"]: package for package in bill["packages"]}
    binary = taken_from(IMAGE, "/opt/memoryd/bin/memoryd", tmp_path)
    assert packages["memoryd"]["checksums"] == [
        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(binary.read_bytes()).hexdigest()}]
    status = taken_from(IMAGE, "/var/lib/dpkg/status.d", tmp_path)
    listed = {entry.name for entry in status.iterdir()}
    brought = taken_from(IMAGE, "/opt/memoryd/share/memoryd", tmp_path)
    data = {file.name: file for file in brought.iterdir() if file.is_file() and file.suffix != ".txt"}
    # It stands for the zones beside it.
    data["tzdata.version"] = brought / "zoneinfo/tzdata.version"
    assert set(packages) == listed | set(data) | {"memoryd"}
    for name, file in data.items():
        assert packages[name]["checksums"] == [
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}]
    for name in listed:
        (reference,) = packages[name]["externalRefs"]
        assert reference["referenceLocator"].startswith(f"pkg:deb/debian/{name.replace('+', '%2B')}@")
    identifiers = [package["SPDXID"] for package in bill["packages"]]
    assert len(set(identifiers)) == len(identifiers)
    related = {relation["relatedSpdxElement"] for relation in bill["relationships"]}
    assert related == set(identifiers)
    # As SPDX itself has it.
    checked = subprocess.run(
        [REPOSITORY / "build/deploy-venv/bin/pyspdxtools", "--infile", path],
        capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_ranks_by_the_vectors_of_words_that_are_in_it(running):
    with running.channel() as channel:
        calls = Calls(channel)
        assert calls.GetServerInfo().has_word_vectors
        calls.Put(session_id="vectors", messages=[user("We adopted a puppy."), user("Rain again.")])
        found = calls.Query(session_id="vectors", query="dog", top_k=1)
    assert [result.message.text for result in found.results] == ["We adopted a puppy."]
    assert not found.notices


def test_there_is_no_shell():
    ended = subprocess.run(
        ["podman", "run", "--rm", "--entrypoint=/bin/sh", IMAGE, "-c", "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 127, ended.stderr
