#!/bin/bash
# `make check`: what the compilers, sanitizers and linters see. Goes on after a failure; the last
# line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
export MEMORYD_TEST_RESULTS=${MEMORYD_TEST_RESULTS:-build/results/check.jsonl}
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
with_postgres=tools/with_postgres.sh
# What tests store lies in memory where there is room: none of them tests the disk, and a disk that
# stalls for longer than a call may take fails them.
TMPDIR=$(tools/scratch.sh)
export TMPDIR
echo "what tests store: $TMPDIR" >&2

# The sanitizers look for llvm-symbolizer there: suppressions name functions.
export PATH=$PATH:/usr/lib/llvm-14/bin
# The first report ends the process, so that a test that kills its server cannot hide one.
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$PWD/tools/tsan.supp:second_deadlock_stack=1:halt_on_error=1

$results step 'packages' tools/install_packages.sh build test check || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'layering' tools/check_layering.sh
$results step 'statements' tools/check_statements.py
$results step 'sizes' tools/check_sizes.py
$results step 'manifests' tools/render_kubernetes.py --check
$results step 'pages' tools/docs.sh
$results step 'format' tools/format.sh --check
$results step 'buf lint' build/venv/bin/buf lint proto
$results step 'mypy' tools/lint_python.sh mypy
$results step 'ruff' tools/lint_python.sh ruff
$results step 'shellcheck' tools/lint_shell.sh
# Left to `make test`: what makes one call after the other, by the thousand, which shows sanitizers
# nothing new. ThreadSanitizer gets what has threads: of the unit tests, and of the end-to-end tests
# those of concurrent calls, jobs, workers, searches, reloads and ends. AddressSanitizer gets those whose
# bytes are of every form and whose objects come and go. `make check SANITIZED=all` gives both every
# end-to-end test, but those that move 64 MiB, in more than the time that a call may have. End to end
# each sanitizer sees one store, and both in the store's contract. Of the seeds of random histories
# AddressSanitizer gets a fifth, and of the tests of how long much takes none; ThreadSanitizer gets no
# properties that one thread tries.
tsan_files=$(printf 'tests/e2e/test_%s.py ' accounting attached_sessions auth blocks concurrency \
  embedder erase fork idempotency import jobs lifecycle logs metrics query query_blocks retention sessions \
  single_messages store_down stream_all tls update_context worker)
asan_files=$(printf 'tests/e2e/test_%s.py ' bad_input block_service blocks concurrency contents erase \
  facts filters fork import jobs large_requests messages model_answers raw_frames reembedding reload \
  templates turns vector_entries worker)
[ "${SANITIZED:-}" = all ] && asan_files=tests/e2e tsan_files=tests/e2e
declare -A marks=([asan]='not matrix and not resident' [tsan]='not matrix and not large and not resident')
declare -A names=([asan]='not postgresql' [tsan]='not sqlite')
declare -A files=([asan]="$asan_files" [tsan]="$tsan_files")
declare -A targets=([asan]='' [tsan]='memoryd calls_test sessions_test writes_test session_draft_test
  reads_test recall_test jobs_test lifecycle_test engine_test worker_registry_test worker_service_test
  llm_test server_test http2_server_test sqlite_store_test store_contract_test')
threaded='calls|sessions|writes|session_draft|reads|recall|jobs|lifecycle|engine|worker|llm|server|http2_server'
declare -A tests=([asan]='.' [tsan]="^($threaded|sqlite_store|store_contract)")
seeds=$(printf 'Seeds/*/%d*:' 1 3 4 5 6 7 8 9)
declare -A cases=([asan]="-$seeds*.IsLinear:FactStateJsonTest.StaysWithinItsBytes"
  [tsan]='-*PropertyTest.*:ParseRequestTest.*')
# clang builds for AddressSanitizer: its thread-safety analysis is part of that build.
sanitize() {
  local sanitizer=$1
  # shellcheck disable=SC2086  # Several words.
  $results step "$sanitizer build" tools/build.sh "$sanitizer" ${targets[$sanitizer]}
  GTEST_FILTER=${cases[$sanitizer]} \
    $with_postgres $results ctest "$sanitizer tests" "build/$sanitizer" -L 'unit|contract' \
    -R "${tests[$sanitizer]}" -j 2
  # shellcheck disable=SC2086  # Several words.
  MEMORYD_TEST_BINARY=$PWD/build/$sanitizer/bin/memoryd \
    $with_postgres $results pytest "$sanitizer end to end" ${files[$sanitizer]} -n 3 \
    -m "${marks[$sanitizer]}" -k "${names[$sanitizer]}"
}
sanitize asan
$results step 'reference of the settings' tools/write_reference.py --check build/asan/bin/memoryd
# The server that is shipped, but for failpoints that end it, and what it is preloaded with.
$results step 'torture build' tools/build.sh release memoryd memoryd_failpoints disk_faults
for store in sqlite postgresql; do
  MEMORYD_TEST_BINARY=$PWD/build/bin/memoryd_failpoints $results step "torture, $store" \
    build/venv/bin/python tests/torture/run.py --failpoints --seconds 60 --store "$store"
done
# The Connect protocol's own suite and clients on the HTTP port, as in `make test-http`. They are downloaded
# once; a step fails where a registry can't be reached.
$results step "Connect's suite" tests/conformance/connect.sh
$results step "Connect's clients" tests/conformance/connect_clients.sh
# Its packages are downloaded once too.
$results step 'TypeScript client' tools/typescript.sh lint test conform pack
$results step 'Go client' tools/go_test.sh
# Adapters of frameworks that have environments of their own, which would take `make test` past its time.
for name in google-adk agent-framework strands; do
  $results step "fresh install of $name" build/venv/bin/python tests/clients/fresh_install.py --extras "$name"
done
for name in crewai google_adk agent_framework strands; do
  $with_postgres $results step "$name" build/venv/bin/python tests/frameworks/run.py "$name"
done
$results step 'tests of strands-agents' build/frameworks/strands/bin/python \
  tests/upstream/strands_agents.py
$results step 'each framework with each other' build/venv/bin/python tests/frameworks/matrix.py
# Each of these takes half an hour on a slow machine. CHECK_UNTIL is a time in seconds since 1970: what
# has not begun by then is left out, and the summary says so.
time_is_left() { [ -z "${CHECK_UNTIL:-}" ] || [ "$(date +%s)" -lt "$CHECK_UNTIL" ]; }
if time_is_left; then
  sanitize tsan
else
  $results left-out 'tsan build, tests, end to end'
fi
if time_is_left; then
  # What changed last comes first, should the time not do for all.
  $results step 'clang-tidy' tools/clang_tidy.py --minutes 15
else
  $results left-out 'clang-tidy'
fi
$results summary "$MEMORYD_TEST_RESULTS"
