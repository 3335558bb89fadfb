#!/bin/bash
# The C++ client as its users have it: installed into a folder of its own, found there by the
# quickstart's own CMake project, and run against a server, twice: the second run finds the message of
# the first. Needs the release build.
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=$PWD/build/prefix
quickstart=$PWD/build/quickstart
server=
cleanup() {
  [ -z "$server" ] || { kill "$server"; wait "$server" || true; }
  rm -rf "$scratch"
}
scratch=$(mktemp -d)
trap cleanup EXIT

rm -rf "$prefix" "$quickstart"
cmake --build build --target memoryd_client memoryd_client_fake
cmake --install build --component client --prefix "$prefix" >/dev/null
cmake -S clients/cpp/quickstart -B "$quickstart" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >/dev/null
cmake --build "$quickstart"
lines=$(wc -l <clients/cpp/quickstart/main.cc)
[ "$lines" -le 40 ] || { echo "main.cc has $lines lines, more than 40"; exit 1; }

build/bin/memoryd --listen="unix:$scratch/socket" --store="sqlite:$scratch/memory.db" \
  >"$scratch/log" 2>&1 &
server=$!
# Calls wait for the server: nothing to wait for here.
"$quickstart/quickstart" "unix:$scratch/socket" >"$scratch/first"
"$quickstart/quickstart" "unix:$scratch/socket" >"$scratch/second"
diff - "$scratch/first" <<<'user: Hello, world!'
diff - "$scratch/second" <<<$'user: Hello, world!\nuser: Hello, world!'

echo 'quickstart: built from the installed package, and run'
