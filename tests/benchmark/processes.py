"""What the benchmark runs: servers, the load generator, pgbench, and their CPU time."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import ClassVar

_SYNCING = (
    "-c fsync=on -c full_page_writes=on -c synchronous_commit=on -c shared_buffers=512MB"
    " -c max_wal_size=4GB"
)


def cpu_seconds(pid):
    """User and system time of a running process, without its children."""
    # Linux' clock of another process: /proc has no more than hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)


def tree_cpu_seconds(root):
    """CPU time of a process and of its children that are still running."""
    total = cpu_seconds(root)
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # A process may end while we look.
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text()
            if int(stat[stat.rindex(")") + 2 :].split()[1]) == root:
                total += cpu_seconds(int(entry.name))
    return total


class Postgres:
    """A PostgreSQL that syncs, with its data in a folder below `parent`. A context manager."""

    def __init__(self, parent):
        script = pathlib.Path(__file__).resolve().parents[2] / "tools" / "with_postgres.sh"
        environment = {
            **os.environ,
            "MEMORYD_TEST_POSTGRES_PARENT": str(parent),
            "MEMORYD_TEST_POSTGRES_OPTIONS": _SYNCING,
        }
        tell = 'echo "$MEMORYD_TEST_POSTGRES $MEMORYD_TEST_POSTGRES_DATA"; exec sleep infinity'
        self._process = subprocess.Popen(
            [script, "sh", "-c", tell], stdout=subprocess.PIPE, env=environment, text=True
        )
        said = self._process.stdout.readline().split()
        if len(said) != 2:
            self._process.wait()
            raise RuntimeError("PostgreSQL did not start")
        self.url = said[0]
        self._data = pathlib.Path(said[1])
        self._postmaster = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        self.bin_dir = pathlib.Path(f"/proc/{self._postmaster}/exe").resolve().parent

    def database(self, name):
        """The URL of a new one."""
        psql(self.url, f"CREATE DATABASE {name}")
        return self.url.rsplit("/", 1)[0] + f"/{name}"

    def cpu_seconds(self):
        return tree_cpu_seconds(self._postmaster)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def run_with_postgres():
    """Starts this program again beside a PostgreSQL on tmpfs that syncs."""
    os.environ["MEMORYD_TEST_POSTGRES_PARENT"] = "/dev/shm"
    os.environ["MEMORYD_TEST_POSTGRES_OPTIONS"] = _SYNCING
    script = str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "with_postgres.sh")
    os.execv(script, [script, sys.executable, *sys.argv])


def new_store(kind, folder, name):
    """The URL of an empty store: a file in `folder`, or a database called `name`."""
    if kind == "sqlite":
        return f"sqlite:{folder}/memoryd.db"
    admin = os.environ["MEMORYD_TEST_POSTGRES"]
    psql(admin, f"CREATE DATABASE {name}")
    return admin.rsplit("/", 1)[0] + f"/{name}"


class Server:
    """A process that says `listening on TARGET` once it serves, and before that perhaps where its
    metrics and its port of HTTP are. `start_seconds` is how long that took."""

    def __init__(self, command, log):
        self._log = open(log, "w+")  # noqa: SIM115  (open as long as the process runs)
        self.metrics = ""
        self.http = ""
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        for line in self._process.stdout:
            self.start_seconds = time.perf_counter() - begin
            if match := re.search(r"metrics on (\S+)", line):
                self.metrics = match.group(1)
            if match := re.search(r"http on (\S+)", line):
                self.http = match.group(1)
            if match := re.search(r"listening on (\S+)", line):
                self.target = match.group(1)
                return
        self._process.wait()
        self._log.seek(0)
        raise RuntimeError(f"{command[0]} did not start:\n{self._log.read()[-2000:]}")

    @property
    def pid(self):
        return self._process.pid

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def resident_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


def load(binary, target, **flags):
    """One run of memoryd_load; its flags are `flags`. Returns what it printed."""
    command = [str(binary), f"--target={target}"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {run.stderr or run.stdout}")
    result = json.loads(run.stdout)
    if result["errors"]:
        raise RuntimeError(f"{' '.join(command)}: {result['errors']} {result['first_error']}")
    return result


class Pgbench:
    """One table of short rows, written a row a commit and read by primary key."""

    _SCRIPTS: ClassVar = {
        "insert": r"""\set session random(1, 1000)
\set position random(1, 9000000000000000)
INSERT INTO bench_message VALUES ('session-' || :session, :position, '{text}');
""",
        "select": r"""\set session random(1, 1000)
SELECT body FROM bench_message WHERE session_id = 'session-' || :session AND position = 0;
""",
    }

    def __init__(self, bin_dir, url, folder):
        self._bin_dir = pathlib.Path(bin_dir)
        self._url = url
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(parents=True)
        for name, script in self._SCRIPTS.items():
            (self._folder / name).write_text(script.replace("{text}", "x" * 88))
        psql(
            url,
            "CREATE TABLE bench_message (session_id text, position bigint, body text,"
            " PRIMARY KEY (session_id, position))",
            "INSERT INTO bench_message SELECT 'session-' || s, 0, repeat('x', 88)"
            " FROM generate_series(1, 1000) s",
            "VACUUM ANALYZE bench_message",
        )

    def best_client_count(self, script, counts, seconds):
        speeds = {n: self.run(script, n, seconds)["ops_per_second"] for n in counts}
        return max(speeds, key=speeds.get)

    def run(self, script, clients, seconds):
        """Runs one script and returns the same fields as `load`, as far as pgbench knows them."""
        prefix = self._folder / "log"
        threads = min(clients, os.cpu_count())
        command = [
            self._bin_dir / "pgbench", "--no-vacuum", "--protocol=prepared",
            f"--file={self._folder / script}", f"--client={clients}", f"--jobs={threads}",
            f"--time={max(1, round(seconds))}", "--log", f"--log-prefix={prefix}",
            "--sampling-rate=0.2", self._url,
        ]  # fmt: skip
        run = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            raise RuntimeError(f"pgbench: {run.stderr}")
        latencies = []
        for log in self._folder.glob("log.*"):
            latencies += [int(line.split()[2]) for line in log.read_text().splitlines()]
            log.unlink()
        rate = float(re.search(r"tps = ([\d.]+)", run.stdout).group(1))
        return {"ops_per_second": rate, **percentiles(latencies)}


def percentiles(latencies):
    """Of latencies in microseconds, under the names of memoryd_load; 0 where there are none."""
    latencies = sorted(latencies)

    def below(share):
        return latencies[min(int(share * len(latencies)), len(latencies) - 1)] if latencies else 0

    return {"p50_us": below(0.5), "p99_us": below(0.99), "p999_us": below(0.999)}


def psql(url, *statements):
    """Runs statements one by one and returns what the last one printed."""
    command = ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]
    command += ["--set=ON_ERROR_STOP=1"]
    for statement in statements:
        command += ["--command", statement]
    run = subprocess.run([*command, url], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"psql: {run.stderr}")
    lines = run.stdout.strip().splitlines()
    return lines[-1] if lines else ""
