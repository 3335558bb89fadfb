#!/usr/bin/env python3
"""Runs the steps of `make test` and `make check`, and counts what passed.

usage: results.py step NAME COMMAND...        one check: passes when COMMAND exits with 0
       results.py ctest NAME BUILD [ARG...]   the test cases of a build folder's tests
       results.py pytest NAME [ARG...]        the test cases of a pytest run
       results.py left-out NAME...            what is not run: the summary says so
       results.py summary FILE...             the table, and last `N passed, N failed`

A step that takes longer than 40 minutes is killed and has failed; so has a test of pytest's, and the
others go on, that takes longer than 6. Every step adds a line to the file named by
MEMORYD_TEST_RESULTS, and exits with 1 when something failed. GoogleTest and pytest are counted by
test case, all else by command; the summary names the cases that failed.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

STEP_SECONDS = 2400
TEST_SECONDS = 360
# That a summary names at most.
NAMED_CASES = 50

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_command(command: list[str]) -> int:
    """The exit status of a command; what it started is killed with it when time is up."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(STEP_SECONDS)
    except BaseException as stop:
        # First gently: a private PostgreSQL is stopped and removed on SIGTERM.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(20)
        if not isinstance(stop, subprocess.TimeoutExpired):
            raise
        print(f"killed after {STEP_SECONDS} s: {' '.join(command)}", flush=True)
        return 124


@dataclasses.dataclass(frozen=True)
class Outcome:
    passed: int = 0
    # The names of the cases that failed, with how where that is not by failing.
    failed: tuple[str, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(self.passed + other.passed, self.failed + other.failed)


def read_junit(path: pathlib.Path) -> Outcome:
    """The outcome in a JUnit file; a skipped case fails, since nothing here may be skipped."""
    passed, failed = 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("skipped") is not None or case.get("status") == "notrun":
            failed.append(f"{name} (skipped)")
        elif case.get("status") == "fail" or any(
                case.find(tag) is not None for tag in ("failure", "error")):
            failed.append(name)
        else:
            passed += 1
    return Outcome(passed, tuple(failed))


def run_ctest(build: str, arguments: list[str]) -> Outcome:
    cases = pathlib.Path(build) / "test-results"
    shutil.rmtree(cases, ignore_errors=True)
    cases.mkdir(parents=True)
    entries = cases.resolve() / "ctest-entries.junit"
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    status = run_command([*command, "--output-junit", str(entries), *arguments])

    total = Outcome()
    if entries.exists():
        for entry in ElementTree.parse(entries).iter("testcase"):
            ok = entry.get("status") == "run"
            name = entry.get("name")
            own = cases / f"{name}.xml"
            try:
                outcome = read_junit(own) if own.exists() else Outcome(int(ok))
            except ElementTree.ParseError:  # Died while writing.
                outcome = Outcome()
            # A crash, a leak or a race ends the process without a failed case.
            if not ok and not outcome.failed:
                outcome += Outcome(0, (f"{name} (ended early)",))
            total += outcome
    return complete(total, status)


def complete(outcome: Outcome, status: int) -> Outcome:
    """The outcome of a runner that ended with a status, which a case need not explain."""
    if status != 0 and not outcome.failed:
        outcome += Outcome(0, (f"exit status {status}",))
    return outcome


def run_pytest(name: str, arguments: list[str]) -> Outcome:
    report = ROOT / "build" / "results" / (name.replace(" ", "-") + ".junit")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    python = str(ROOT / "build" / "venv" / "bin" / "python")
    command = [python, "-m", "pytest", "-q", f"--timeout={TEST_SECONDS}", f"--junitxml={report}"]
    command += arguments
    status = run_command(command)
    return complete(read_junit(report) if report.exists() else Outcome(), status)


def write(line: dict[str, object]) -> None:
    path = os.environ.get("MEMORYD_TEST_RESULTS")
    if path:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def record(name: str, outcome: Outcome, seconds: float) -> None:
    passed, failed = outcome.passed, len(outcome.failed)
    print(f"-- {name}: {passed} passed, {failed} failed ({seconds:.0f} s)", flush=True)
    write({"name": name, "passed": passed, "failed": failed, "cases": outcome.failed,
           "seconds": round(seconds)})


def summary(paths: list[str]) -> int:
    passed = failed = 0
    cases = []
    for path in paths:
        if not os.path.exists(path):
            print(f"{path}: no results")
            failed += 1
            continue
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("left_out"):
                    print(f"not run, since too much time has gone: {line['name']}")
                    continue
                mark = "FAILED" if line["failed"] else "ok"
                counts = f"{line['passed']:6} passed {line['failed']:4} failed"
                print(f"{mark:6} {counts} {line['seconds']:5} s  {line['name']}")
                passed += line["passed"]
                failed += line["failed"]
                cases += [f"{line['name']}: {case}" for case in line["cases"]]
    for case in cases[:NAMED_CASES]:
        print(f"failed: {case}")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


def main(arguments: list[str]) -> int:
    kinds = ("step", "ctest", "pytest", "left-out", "summary")
    if len(arguments) < 2 or arguments[0] not in kinds:
        print(__doc__, file=sys.stderr)
        return 2
    kind, rest = arguments[0], arguments[1:]
    if kind == "summary":
        return summary(rest)
    if kind == "left-out":
        for name in rest:
            print(f"-- {name}: not run, since too much time has gone", flush=True)
            write({"name": name, "left_out": True})
        return 0

    name, rest = rest[0], rest[1:]
    print(f"-- {name}", flush=True)
    # So that the step's own processes are ended on SIGTERM as on SIGINT.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    start = time.monotonic()
    if kind == "step":
        status = run_command(rest)
        outcome = complete(Outcome(int(status == 0)), status)
    elif kind == "ctest":
        outcome = run_ctest(rest[0], rest[1:])
    else:
        outcome = run_pytest(name, rest)
    record(name, outcome, time.monotonic() - start)
    return int(bool(outcome.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
