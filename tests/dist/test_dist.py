"""Every artefact of `make dist`, installed and used."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tarfile
import time
import zipfile

import pytest
import tomllib
import yaml

import container
from conftest import DIST, TREE, VERSION, artefact
from support.hardening import check_hardened, readelf
from support.paths import REPOSITORY

import memoryd
from memoryd.v1.memory_pb2 import SessionConfig

WHEEL_BYTES = 15_000_000
C_LIBRARY = r"lib(c|m|dl|rt|pthread|resolv)\.so\.\d|ld-linux-x86-64\.so\.2"
# Of each file, in seconds since 1970.
TIME = int(os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
    ["git", "log", "-1", "--format=%ct"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout)


class Running:
    """A server of `command` on a port and in a folder of its own."""

    def __init__(self, command, environment, folder, before=()):
        self._process = subprocess.Popen(
            [*before, *command, "--listen=127.0.0.1:0", f"--store=sqlite:{folder}/memory.db"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)

    def __enter__(self):
        for line in self._process.stdout:
            if line.startswith("listening on "):
                self.target = line.split()[-1]
                return self
        raise AssertionError(self._process.stderr.read())

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)
        return self._process.returncode

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def use(target: str) -> None:
    """Puts and gets, by vocabularies and time zones that the server has to find."""
    with memoryd.Client(target, timeout=30) as client:
        for model in ("o200k_base", "cl100k_base"):
            client.create_session(model, config=SessionConfig(
                token_limit=1000, tokenizer=model, time_zone="Europe/Lisbon"))
            client.put(model, [{"role": "user", "content": "Hello, world!"}])
            assert client.get(model).to_openai() == [{"role": "user", "content": "Hello, world!"}]


def test_starts_stores_and_ends(installed, tmp_path):
    told = subprocess.run([*installed.command[:1], "--version"], env=installed.environment,
                          capture_output=True, text=True, check=True)
    assert told.stdout == f"memoryd {VERSION}\n"
    with Running(installed.command, installed.environment, tmp_path) as server:
        use(server.target)
        assert server.stop() == 0
    with Running(installed.command, installed.environment, tmp_path) as server:
        with memoryd.Client(server.target, timeout=30) as client:
            assert len(client.get("o200k_base").messages) == 1
        assert server.stop() == 0


def test_finds_what_it_reads_without_proc(installed, tmp_path):
    hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              "mount -t tmpfs none /proc && test ! -e /proc/self && exec \"$@\"", "sh"]
    environment = {"PATH": os.environ["PATH"], **installed.environment}
    with Running(installed.command, environment, tmp_path, before=hidden) as server:
        use(server.target)
        assert server.stop() == 0


def test_needs_only_the_c_library_that_is_claimed(installed):
    dynamic = readelf(installed.binary, "--dynamic")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert [name for name in needed if not re.fullmatch(C_LIBRARY, name)] == []
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic
    asked = {tuple(map(int, version.split(".")))
             for version in re.findall(r"GLIBC_([0-9.]+)", readelf(installed.binary, "--version-info"))}
    claimed = re.search(r"manylinux_(\d+)_(\d+)_x86_64\.whl$", artefact("memoryd_server-*.whl").name)
    assert max(asked)[:2] <= tuple(map(int, claimed.groups()))
    control = subprocess.run(["dpkg-deb", "--field", artefact("memoryd_*.deb"), "Depends"],
                             capture_output=True, text=True, check=True).stdout
    assert f"libc6 (>= {'.'.join(map(str, max(asked)))})" in control
    check_hardened(installed.binary)


def test_reads_no_openssl_cnf_but_the_named_one(installed, tmp_path):
    """That of the machine is for another OpenSSL."""
    def opened(**variables: str) -> list[str]:
        log = tmp_path / "opened"
        # As the server's child, so that what is sent to the process is sent to the server.
        before = ["strace", "--daemonize", "--follow-forks", "--trace=open,openat", f"--output={log}"]
        environment = {"PATH": os.environ["PATH"], **installed.environment, **variables}
        with Running(installed.command, environment, tmp_path, before=before) as server:
            use(server.target)
            assert server.stop() == 0
        return re.findall(r'"([^"]*(?:\.cnf|ossl-modules[^"]*))"', log.read_text(encoding="utf-8"))

    assert opened() == []
    named = tmp_path / "own.cnf"
    named.write_text("", encoding="utf-8")
    (tmp_path / "memory.db").unlink()
    assert opened(OPENSSL_CONF=str(named)) == [str(named)]


def test_local_serves_from_the_wheels_alone(environment, tmp_path):
    program = """
import memoryd
from memoryd.v1.memory_pb2 import SessionConfig
with memoryd.local("store") as memory:
    memory.put("s1", [{"role": "user", "content": "hi"}])
    print(memory.get("s1").to_openai())
"""
    told = subprocess.run([environment, "-I", "-c", program], env={"HOME": str(tmp_path), "PATH": ""},
                          cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (told.returncode, told.stdout) == (0, "[{'role': 'user', 'content': 'hi'}]\n"), told.stderr


def test_client_has_its_stubs_and_asks_for_no_compiler():
    with zipfile.ZipFile(artefact("memoryd-*.whl")) as wheel:
        names = wheel.namelist()
        needs = wheel.read(f"memoryd-{VERSION}.dist-info/METADATA").decode()
    for stub in ("memory_pb2.py", "memory_pb2.pyi", "memory_service_pb2_grpc.py"):
        assert f"memoryd/v1/{stub}" in names
    assert "memoryd/py.typed" in names
    assert "grpcio-tools" not in needs
    assert f"memoryd-{VERSION}.dist-info/licenses/LICENSE" in names
    assert "\nLicense-Expression: Apache-2.0\n" in needs
    assert "\n# memoryd for Python\n" in needs
    assert artefact("memoryd-*.whl").name == f"memoryd-{VERSION}-py3-none-any.whl"


def test_wheel_of_the_server_is_small():
    size = artefact("memoryd_server-*.whl").stat().st_size
    assert size <= WHEEL_BYTES, size


def test_one_version():
    """That of CMakeLists.txt, also where it can't be taken from there."""
    with open(REPOSITORY / "clients/python/pyproject.toml", "rb") as file:
        assert "version" in tomllib.load(file)["project"]["dynamic"]
    chart = yaml.safe_load((REPOSITORY / "deploy/helm/memoryd/Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == VERSION
    assert f"ARG VERSION={VERSION}\n" in (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert f"\n## {VERSION} " in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"memoryd:{VERSION} " in (
        REPOSITORY / "clients/python/src/memoryd/_server_binary.py").read_text(encoding="utf-8")


def test_unit_is_valid_and_hardened(tmp_path):
    subprocess.run(["dpkg-deb", "--extract", artefact("memoryd_*.deb"), tmp_path], check=True)
    unit = "usr/lib/systemd/system/memoryd.service"
    text = (tmp_path / unit).read_text(encoding="utf-8")
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=memoryd", "User=memoryd"):
        assert f"\n{line}\n" in text
    named = re.findall(r"file:(\S+)", re.search(r"(?m)^Documentation=(.*)$", text)[1])
    assert named
    assert [path for path in named if not (tmp_path / path[1:]).is_file()] == []
    # systemd has patience with a drain that takes as long as it may.
    reference = (tmp_path / "usr/share/doc/memoryd/SETTINGS.md").read_text(encoding="utf-8")
    drain = int(re.search(r"\| `drain_seconds` \| `(\d+)` \|", reference)[1])
    assert int(re.search(r"(?m)^TimeoutStopSec=(\d+)$", text)[1]) > drain + 2
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", "memoryd.service"],
                          capture_output=True, text=True)
    ours = [line for line in told.stderr.splitlines() if "memoryd.service:" in line and "Unknown" in line]
    assert ours == []
    # 10 is a service that may do anything.
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", tmp_path / unit],
                   check=True, capture_output=True)


def test_package_of_debian_marks_its_settings():
    listed = subprocess.run(["dpkg-deb", "--contents", artefact("memoryd_*.deb")],
                            capture_output=True, text=True, check=True).stdout
    assert re.search(r"-rw-r----- root/root .* \./etc/memoryd/memoryd\.yaml\n", listed)
    assert re.search(r"lrwxrwxrwx root/root .* \./usr/bin/memoryd -> \.\./lib/memoryd/bin/memoryd\n", listed)
    for script in ("postinst", "prerm", "postrm"):
        text = subprocess.run(["dpkg-deb", "--info", artefact("memoryd_*.deb"), script],
                              capture_output=True, check=True).stdout
        subprocess.run(["sh", "-n"], input=text, check=True)


def test_what_its_settings_suggest_is_valid(tmp_path):
    subprocess.run(["dpkg-deb", "--extract", artefact("memoryd_*.deb"), tmp_path], check=True)
    text = (tmp_path / "etc/memoryd/memoryd.yaml").read_text(encoding="utf-8")
    suggested = re.findall(r"(?m)^# ([a-z_]+: .*)$", text)
    assert len(suggested) >= 4
    settings = tmp_path / "all.yaml"
    # Of a setting that is suggested twice, the later.
    settings.write_text("\n".join({line.split(":")[0]: line for line in suggested}.values()),
                        encoding="utf-8")
    binary = tmp_path / "usr/lib/memoryd/bin/memoryd"
    told = subprocess.run([binary, f"--config={settings}", "--print-config"], env={},
                          capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    # The commands it tells of, and what a reload is said to bring.
    for command in ("--check-config", "--print-config"):
        assert f"memoryd --config=/etc/memoryd/memoryd.yaml {command}\n" in text
    assert "memoryd serve --help" in text


def test_licences_of_all_that_is_in_it():
    with tarfile.open(artefact("*.tar.gz")) as archive:
        packed = {name.removeprefix(f"{TREE}/share/"):
                  archive.extractfile(name).read().decode(errors="replace")
                  for name in archive.getnames() if name.endswith(".txt")}
    licences = {name: text for name, text in packed.items() if "/licences/" in name}
    named = {path.rsplit("/", 1)[1] for text in licences.values()
             for path in re.findall("/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]", text)}
    there = {pathlib.Path("/usr/share/common-licenses", name).name for name in named
             if pathlib.Path("/usr/share/common-licenses", name).exists()}
    assert {"Apache-2.0", "GPL-2"} <= there
    assert {f"doc/memoryd/licences/common/{name}.txt" for name in there} <= licences.keys()
    assert "Copyright (c) 2022 OpenAI" in packed["memoryd/tiktoken.license.txt"]
    with zipfile.ZipFile(artefact("memoryd_server-*.whl")) as wheel:
        carried = {name.removeprefix("memoryd_server/share/") for name in wheel.namelist()}
    assert packed.keys() <= carried
    shown = subprocess.run(["dpkg-deb", "--fsys-tarfile", artefact("memoryd_*.deb")],
                           capture_output=True, check=True)
    told = subprocess.run(["tar", "--extract", "--to-stdout", "./usr/share/doc/memoryd/copyright"],
                          input=shown.stdout, capture_output=True, check=True).stdout.decode(errors="replace")
    for name, text in licences.items():
        if name.count("/") == 3 and not name.endswith("README.txt"):
            assert text in told, name
    assert packed["memoryd/tiktoken.license.txt"] in told


def test_fields_of_the_packages_of_debian():
    for pattern in ("memoryd_*.deb", "libmemoryd-dev_*.deb"):
        def field(name, pattern=pattern):
            return subprocess.run(["dpkg-deb", "--field", artefact(pattern), name],
                                  capture_output=True, text=True, check=True).stdout.strip()
        assert re.fullmatch(r"[^<>]+ <[^<>@\s]+@[^<>@\s]+\.[^<>@\s]+>", field("Maintainer"))
        listed = subprocess.run(["dpkg-deb", "--contents", artefact(pattern)], capture_output=True, text=True,
                                check=True).stdout.splitlines()
        sizes = [-(-int(line.split()[2]) // 1024) if line.startswith("-") else 1 for line in listed]
        assert int(field("Installed-Size")) == sum(sizes)


def test_client_for_cpp_builds_from_its_package(tmp_path):
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", artefact("libmemoryd-dev_*.deb"), root], check=True)
    subprocess.run(["dpkg-deb", "--extract", artefact("memoryd_*.deb"), root], check=True)
    build = tmp_path / "build"
    subprocess.run(["cmake", "-S", REPOSITORY / "clients/cpp/quickstart", "-B", build, "-G", "Ninja",
                    f"-DCMAKE_PREFIX_PATH={root}/usr", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF"], check=True,
                   capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    with Running([str(root / "usr/bin/memoryd")], {"HOME": str(tmp_path)}, tmp_path) as server:
        told = subprocess.run([build / "quickstart", server.target],
                              capture_output=True, text=True, check=True)
    assert told.stdout == "user: Hello, world!\n"


@pytest.fixture
def image(monkeypatch) -> str:
    """The name of the image, known to podman for as long as the test runs."""
    packed = next(DIST.glob("*-image.oci.tar"), None)
    if packed is None:
        pytest.skip("made without IMAGE=ON")
    if not pathlib.Path("/run/systemd/system").is_dir():
        monkeypatch.setenv("CONTAINERS_CONF", str(REPOSITORY / "tests/image/containers.conf"))
    told = container.podman("load", "--quiet", "--input", str(packed), timeout=300)
    name = told.splitlines()[-1].removeprefix("Loaded image: ")
    monkeypatch.setattr(container, "IMAGE", name)
    return name


def test_image_starts_stores_and_ends(image):
    assert container.run_to_end("--version").stdout == f"memoryd {VERSION}\n"
    volumes = container.temporary_volume()
    volume = next(volumes)
    try:
        with container.Container(volume=volume) as first:
            use(first.target)
            assert first.stop() == 0
        with container.Container(volume=volume) as second, \
                memoryd.Client(second.target, timeout=30) as client:
            assert len(client.get("o200k_base").messages) == 1
    finally:
        next(volumes, None)


def test_bill_of_materials_names_what_is_in_the_binary():
    document = json.loads((DIST / f"memoryd-{VERSION}.spdx.json").read_text(encoding="utf-8"))
    assert document["spdxVersion"] == "SPDX-2.3"
    packages = {package["name"]: package for package in document["packages"]}
    with tarfile.open(artefact("*.tar.gz")) as archive:
        binary = archive.extractfile(f"{TREE}/bin/memoryd").read()
        licences = {pathlib.Path(name).stem for name in archive.getnames() if "/licences/" in name}
    assert packages["memoryd"]["versionInfo"] == VERSION
    assert packages["memoryd"]["checksums"][0]["checksumValue"] == hashlib.sha256(binary).hexdigest()
    linked = {"curl", "libssl-dev", "libprotobuf-dev", "libsqlite3-dev", "libstdc++-12-dev", "postgresql-15"}
    assert linked <= packages.keys()
    assert linked <= licences
    for name in linked:
        # Advisories are of the source, by its version.
        assert re.fullmatch(r"built from Debian's source \S+ \d\S*", packages[name]["sourceInfo"])
    links = {relation["relatedSpdxElement"] for relation in document["relationships"]
             if relation["relationshipType"] == "STATIC_LINK"}
    assert {packages[name]["SPDXID"] for name in linked} <= links
    assert packages["o200k_base.tiktoken"]["licenseDeclared"] == "MIT"
    assert packages["o200k_base.tiktoken"]["SPDXID"] not in links


def test_sums_are_of_every_file():
    listed = dict(reversed(line.split("  ")) for line in
                  (DIST / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    there = {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}
    assert listed.keys() == there
    for name, digest in listed.items():
        assert hashlib.sha256((DIST / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize("pattern", ["memoryd-*.whl", "memoryd_server-*.whl"])
def test_times_are_those_of_the_commit(pattern):
    with zipfile.ZipFile(artefact(pattern)) as wheel:
        # To two seconds, as zip has them.
        assert {entry.date_time[:5] for entry in wheel.infolist()} == {time.gmtime(TIME)[:5]}


@pytest.mark.parametrize("pattern", ["*.tar.gz", "memoryd_*.deb", "libmemoryd-dev_*.deb"])
def test_times_of_archives_are_those_of_the_commit(pattern, tmp_path):
    packed = artefact(pattern)
    if packed.suffix == ".deb":
        with open(tmp_path / "data.tar", "wb") as data:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", packed], stdout=data, check=True)
        packed = tmp_path / "data.tar"
    with tarfile.open(packed) as archive:
        assert {member.mtime for member in archive} == {TIME}
