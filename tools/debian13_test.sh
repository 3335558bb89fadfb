#!/bin/bash
# `make debian13-test`: builds on Debian 13, with its g++ 14, libpqxx 7, Abseil and opentelemetry-cpp, in a root
# of its own, and runs its unit tests there; from here tests end to end, those of spans among them. Needs root, and
# compiles all of it the first time, hence no part of `make test`. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
export MEMORYD_TEST_RESULTS=build/results/debian13.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
there=tools/with_debian13.sh
tree=build/debian13/build
TMPDIR=$(tools/scratch.sh)
export TMPDIR
# The compilers of two Debians share no objects, so they need not share a cache.
export CCACHE_DIR=$PWD/build/debian13/ccache
jobs=${JOBS:-$(nproc)}

$results step 'packages' tools/install_packages.sh test image || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'Debian 13' $there tools/install_packages.sh build debian13 || exit 1
$there dpkg-query -W -f '${source:Package} ${Version}\n' g++ libabsl-dev libgrpc++-dev libprotobuf-dev \
  libpqxx-dev opentelemetry-cpp-dev libfmt-dev libspdlog-dev libyaml-cpp-dev libsqlite3-dev libssl-dev
# Apart, for either takes long where the cache is empty.
$results step 'server' env BINARY_DIR=$tree $there tools/build.sh release memoryd
$results step 'unit tests, built' env BINARY_DIR=$tree $there tools/build.sh release unit_tests
$there tools/results.py ctest 'unit tests' $tree -L unit -j "$jobs"

# The tests run here, and each memoryd that they start there.
cat >build/debian13/memoryd <<END
#!/bin/sh
exec $PWD/tools/with_debian13.sh $PWD/$tree/bin/memoryd "\$@"
END
chmod +x build/debian13/memoryd
export MEMORYD_TEST_BINARY=$PWD/build/debian13/memoryd
tools/with_postgres.sh $results pytest 'end to end' -n "$jobs" \
  tests/e2e/test_{tour,messages,single_messages,contents,idempotency,blocks,query,tls,lifecycle,traces,spans}.py
$results summary "$MEMORYD_TEST_RESULTS"
