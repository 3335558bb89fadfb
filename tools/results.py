#!/usr/bin/env python3
"""Runs the steps of `make test` and `make check`, and counts what passed.

usage: results.py step NAME COMMAND...        one check: passes when COMMAND exits with 0
       results.py ctest NAME BUILD [ARG...]   the test cases of a build folder's tests
       results.py pytest NAME [ARG...]        the test cases of a pytest run
       results.py summary FILE...             the table, and last `N passed, N failed`

A step that takes longer than 30 minutes is killed and has failed; so has a test of pytest's, and the
others go on, that takes longer than 6. Every step adds a line to the file named by
MEMORYD_TEST_RESULTS, and exits with 1 when something failed. GoogleTest and pytest are counted by
test case, all else by command.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

STEP_SECONDS = 1800
TEST_SECONDS = 360

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


def count_junit(path: pathlib.Path) -> tuple[int, int]:
    """(passed, failed) of a JUnit file; a skipped case fails, since nothing here may be skipped."""
    passed = failed = 0
    for case in ElementTree.parse(path).iter("testcase"):
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        if bad or case.get("status") in ("notrun", "fail"):
            failed += 1
        else:
            passed += 1
    return passed, failed


def run_ctest(build: str, arguments: list[str]) -> tuple[int, int]:
    cases = pathlib.Path(build) / "test-results"
    shutil.rmtree(cases, ignore_errors=True)
    cases.mkdir(parents=True)
    entries = cases.resolve() / "ctest-entries.junit"
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    status = run_command(command + ["--output-junit", str(entries)] + arguments)

    passed = failed = 0
    if entries.exists():
        for entry in ElementTree.parse(entries).iter("testcase"):
            ok = entry.get("status") == "run"
            own = cases / f"{entry.get('name')}.xml"
            try:
                case_passed, case_failed = count_junit(own) if own.exists() else (int(ok), 0)
            except ElementTree.ParseError:  # Died while writing.
                case_passed, case_failed = 0, 0
            # A crash, a leak or a race ends the process without a failed case.
            if not ok and case_failed == 0:
                case_failed = 1
            passed += case_passed
            failed += case_failed
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed


def run_pytest(name: str, arguments: list[str]) -> tuple[int, int]:
    report = ROOT / "build" / "results" / (name.replace(" ", "-") + ".junit")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    python = str(ROOT / "build" / "venv" / "bin" / "python")
    command = [python, "-m", "pytest", "-q", f"--timeout={TEST_SECONDS}", f"--junitxml={report}"]
    command += arguments
    status = run_command(command)
    passed, failed = count_junit(report) if report.exists() else (0, 0)
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed


def record(name: str, passed: int, failed: int, seconds: float) -> None:
    print(f"-- {name}: {passed} passed, {failed} failed ({seconds:.0f} s)", flush=True)
    path = os.environ.get("MEMORYD_TEST_RESULTS")
    if path:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            line = {"name": name, "passed": passed, "failed": failed, "seconds": round(seconds)}
            file.write(json.dumps(line) + "\n")


def summary(paths: list[str]) -> int:
    passed = failed = 0
    for path in paths:
        if not os.path.exists(path):
            print(f"{path}: no results")
            failed += 1
            continue
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                mark = "FAILED" if line["failed"] else "ok"
                counts = f"{line['passed']:6} passed {line['failed']:4} failed"
                print(f"{mark:6} {counts} {line['seconds']:5} s  {line['name']}")
                passed += line["passed"]
                failed += line["failed"]
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[0] not in ("step", "ctest", "pytest", "summary"):
        print(__doc__, file=sys.stderr)
        return 2
    kind, rest = arguments[0], arguments[1:]
    if kind == "summary":
        return summary(rest)

    name, rest = rest[0], rest[1:]
    print(f"-- {name}", flush=True)
    # So that the step's own processes are ended on SIGTERM as on SIGINT.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    start = time.monotonic()
    if kind == "step":
        status = run_command(rest)
        passed, failed = int(status == 0), int(status != 0)
    elif kind == "ctest":
        passed, failed = run_ctest(rest[0], rest[1:])
    else:
        passed, failed = run_pytest(name, rest)
    record(name, passed, failed, time.monotonic() - start)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
