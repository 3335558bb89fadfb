#!/bin/bash
# `make check`: what the compilers, sanitizers and linters see. Goes on after a failure; the last
# line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
export MEMORYD_TEST_RESULTS=${MEMORYD_TEST_RESULTS:-build/results/check.jsonl}
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
with_postgres=tools/with_postgres.sh

# The first report ends the process, so that a test that kills its server cannot hide one.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$PWD/tools/tsan.supp:second_deadlock_stack=1:halt_on_error=1

$results step 'packages' tools/install_packages.sh || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'layering' tools/check_layering.sh
$results step 'statements' tools/check_statements.py
$results step 'format' tools/format.sh --check
$results step 'buf lint' build/venv/bin/buf lint proto
for sanitizer in asan tsan; do
  $results step "$sanitizer build" tools/build.sh "$sanitizer"
  $with_postgres $results ctest "$sanitizer tests" "build/$sanitizer" -L 'unit|contract'
  MEMORYD_TEST_BINARY=$PWD/build/$sanitizer/bin/memoryd \
    $with_postgres $results pytest "$sanitizer end to end" tests/e2e
done
$results step 'clang build, thread-safety analysis' tools/build.sh clang
$results step 'clang-tidy' tools/clang_tidy.sh
$results summary "$MEMORYD_TEST_RESULTS"
