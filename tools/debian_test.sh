#!/bin/bash
# `make debian13-test`: builds on Debian 13, with its g++ 14, libpqxx 7, Abseil and opentelemetry-cpp, in a root
# of its own, and runs its unit tests there; from here tests end to end, those of spans among them. Needs root, and
# compiles all of it the first time, hence no part of `make test`. The last line is `N passed, N failed`.
# `make experimental-test`: the same with gRPC of Debian experimental, which the commands and the C++ client call
# with, and unstable's compiler and libraries; its opentelemetry-cpp has another protobuf, so that spans are left out.
set -u
cd "$(dirname "$0")/.." || exit 1
release=${1:?usage: debian_test.sh 13|experimental}
export MEMORYD_TEST_RESULTS=build/results/debian$release.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
there=(tools/with_debian.sh "$release")
tree=build/debian$release/build
sections=(build)
tests=(tour messages single_messages contents idempotency blocks query tls lifecycle traces
  operator_commands import)
[ "$release" != 13 ] || { sections+=(debian13); tests+=(spans); }
# What a library calls deprecated while it is new is no fault yet.
[ "$release" != experimental ] || export CXXFLAGS=-Wno-error=deprecated-declarations
TMPDIR=$(tools/scratch.sh)
export TMPDIR
# The compilers of two Debians share no objects, so they need not share a cache.
export CCACHE_DIR=$PWD/build/debian$release/ccache
jobs=${JOBS:-$(nproc)}

$results step 'packages' tools/install_packages.sh test image || exit 1
$results step 'python environment' tools/python_env.sh
$results step "Debian $release" "${there[@]}" tools/install_packages.sh "${sections[@]}" || exit 1
# shellcheck disable=SC2016  # dpkg-query expands the fields.
"${there[@]}" dpkg-query -W -f '${source:Package} ${Version}\n' g++ libabsl-dev libgrpc++-dev libprotobuf-dev \
  libpqxx-dev opentelemetry-cpp-dev libfmt-dev libspdlog-dev libyaml-cpp-dev libsqlite3-dev libssl-dev
# Apart, for either takes long where the cache is empty.
$results step 'server' env BINARY_DIR="$tree" "${there[@]}" tools/build.sh release memoryd
$results step 'unit tests, built' env BINARY_DIR="$tree" "${there[@]}" tools/build.sh release unit_tests
"${there[@]}" tools/results.py ctest 'unit tests' "$tree" -L unit -j "$jobs"

# The tests run here, and each memoryd that they start there.
cat >"build/debian$release/memoryd" <<END
#!/bin/sh
exec $PWD/${there[*]} $PWD/$tree/bin/memoryd "\$@"
END
chmod +x "build/debian$release/memoryd"
export MEMORYD_TEST_BINARY=$PWD/build/debian$release/memoryd
tests=("${tests[@]/#/tests/e2e/test_}")
tests=("${tests[@]/%/.py}")
tools/with_postgres.sh $results pytest 'end to end' -n "$jobs" "${tests[@]}"
$results summary "$MEMORYD_TEST_RESULTS"
