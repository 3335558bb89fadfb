#!/bin/bash
# `make test`: the release build and every functional test on it, both stores. Goes on after a
# failure; the last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
export MEMORYD_TEST_RESULTS=${MEMORYD_TEST_RESULTS:-build/results/test.jsonl}
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
with_postgres=tools/with_postgres.sh
# What tests store lies in memory where there is room: none of them tests the disk, and a disk that
# stalls for longer than a call may take fails them.
TMPDIR=$(tools/scratch.sh)
export TMPDIR
echo "what tests store: $TMPDIR" >&2
python=build/venv/bin/python

$results step 'packages' tools/install_packages.sh build test || exit 1
$results step 'python environment' tools/python_env.sh
if [ "${UNIT_TESTS:-yes}" = yes ]; then
  $results step 'release build' tools/build.sh release
  $results ctest 'unit tests' build -L unit -j 2
  $with_postgres $results ctest 'store contract' build -L contract
else
  # For who runs `make check` too, which has them under AddressSanitizer: only what the other tests run.
  $results step 'release build' tools/build.sh release memoryd memoryd_failpoints memoryd_later_schema \
    client_driver client_writer clock_ahead disk_faults token_count python_repr
fi
$results step 'tokens beside tiktoken' $python tests/tokens/compare_tiktoken.py --no-speed \
  --tool build/bin/token_count --vocabulary build/share/memoryd
$results step 'Python repr' $python tests/tokens/compare_python_repr.py --tool build/bin/python_repr
$with_postgres $results pytest 'end to end' tests/e2e -n 5
$with_postgres $results pytest 'hostile inputs' tests/hostile -n 2 -m 'not flood'
$with_postgres $results pytest 'durability' tests/durability
$results pytest 'checker of the torture' tests/torture
$results pytest 'figures of the benchmarks' tests/benchmark
$with_postgres $results pytest 'clients' tests/clients -n 3 --dist loadgroup
$results step 'conformance of clients' $python tests/client_conformance/run.py python python-asyncio cpp
$results step 'fresh install' $python tests/clients/fresh_install.py
$results step 'fresh install beside autogen-core' $python tests/clients/fresh_install.py \
  --beside autogen-core==0.7.5
$results step 'fresh install of langgraph' $python tests/clients/fresh_install.py --extras langgraph
$results step 'fresh install of openai-agents' $python tests/clients/fresh_install.py \
  --extras openai-agents
$results step 'fresh install of openai-agents, the lowest' $python tests/clients/fresh_install.py \
  --extras openai-agents --beside openai-agents==0.20.0
$results step 'fresh install of pydantic-ai' $python tests/clients/fresh_install.py \
  --extras pydantic-ai
$results step 'fresh install of mcp' $python tests/clients/fresh_install.py --extras mcp
$results step 'tests of openai-agents' $python tests/upstream/openai_agents.py
$results step 'fresh install of anthropic' $python tests/clients/fresh_install.py --extras anthropic
$results step 'C++ quickstart' tests/clients/cpp_quickstart.sh
$with_postgres $results step 'kill -9, short' $python tests/durability/kill.py --kills 5
$with_postgres $results step 'first starts' $python tests/durability/first_starts.py --rounds 4
$with_postgres $results step 'erasures' $python tests/durability/erase_rounds.py --rounds 20
$results step 'traces' $python tests/goldens/traces.py build/traces --seeds 1
$with_postgres $results step 'goldens' $python tests/goldens/run_goldens.py build/traces
$results step 'goldens, classes of LlamaIndex' $python tests/goldens/llama_index_classes.py \
  build/traces --store sqlite
$results step 'goldens, classes of LangChain' $python tests/goldens/langchain_classes.py \
  build/traces --store sqlite
$with_postgres $results step 'goldens, class of AutoGen' $python tests/goldens/autogen_classes.py \
  build/traces
$with_postgres $results step 'conversations' $python tests/locomo/replay.py
$results summary "$MEMORYD_TEST_RESULTS"
