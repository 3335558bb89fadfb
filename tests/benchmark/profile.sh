#!/bin/bash
# profile.sh put|get STORE [memoryd_load flag...]
# Where the CPU time of a loaded server goes: runs build/bin/memoryd on STORE, loads it, and prints
# perf's flat profile by library and by function. CALLS=1 adds call graphs.
#   tests/benchmark/profile.sh put sqlite:/dev/shm/profile.db
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
command -v perf >/dev/null || { echo "$0: perf is not installed (Debian: linux-perf)" >&2; exit 1; }

method=$1
store=$2
shift 2
bin=${BUILD:-$(dirname "$0")/../../build}/bin
folder=$(mktemp -d)
"$bin/memoryd" --listen=127.0.0.1:0 --store="$store" >"$folder/out" 2>"$folder/err" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
# Ends with the line, or with the server that will never print it.
target=$(tail --pid=$server -n +1 -f "$folder/out" | sed -n '/^listening on /{s///p;q}' || true)
[ -n "$target" ] || { cat "$folder/err" >&2; exit 1; }

load=("$bin/memoryd_load" --target="$target" --method="$method")
[ "$method" = put ] || "${load[@]}" --fill=20 --count=1 >/dev/null
graph=()
[ -z "${CALLS:-}" ] || graph=("--call-graph=dwarf,16384")
perf record --quiet -F 499 "${graph[@]}" -o "$folder/perf" -p $server -- \
  "${load[@]}" --seconds=5 --warmup=0 "$@"
for order in dso symbol; do
  perf report -i "$folder/perf" --stdio --no-children -g none --sort=$order --percent-limit=0.7 \
    2>/dev/null | grep -v '^#' | grep -v '^$' | head -n 60
  echo
done
[ -z "${CALLS:-}" ] || perf report -i "$folder/perf" --stdio --children --percent-limit=2 2>/dev/null
