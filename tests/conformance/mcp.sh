#!/bin/bash
# The Model Context Protocol's own suite, against `memoryd mcp --http` as it is shipped, in the scenarios
# that need no fixtures, and all of it with its fixtures on memoryd's server; mcp_failures.yaml has what
# fails on purpose. The last line is `N passed, N failed`, of runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=build/venv/bin/python
shipped=(server-initialize ping tools-list resources-list prompts-list server-sse-multiple-streams
  dns-rebinding-protection)

. tests/conformance/node_env.sh

folder=$(mktemp -d)
server=
ended() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$folder"
}
trap ended EXIT

# Starts a command that says where it serves MCP, which becomes `url`.
serve() {
  mkfifo "$folder/said.$1"
  PYTHONPATH=clients/python/src MEMORYD_BINARY=${MEMORYD_TEST_BINARY:-build/bin/memoryd} \
    "${@:2}" 2>"$folder/said.$1" &
  server=$!
  exec 3<"$folder/said.$1"
  read -r said <&3
  url=${said##* }
  cat <&3 >>"$folder/log" &
}

passed=0 failed=0
run() {
  if node "$suite/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" "$@" \
    >"$folder/out" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    cat "$folder/out"
  fi
}

serve shipped "$python" -m memoryd mcp --http 127.0.0.1:0 --user ann --path "$folder/memory"
for scenario in "${shipped[@]}"; do run --scenario "$scenario"; done
kill "$server"
wait "$server" || true

serve fixtures "$python" tests/conformance/mcp_fixtures.py "$folder/fixtures"
run --suite all --expected-failures tests/conformance/mcp_failures.yaml
grep -c '^✓' "$folder/out" | sed 's/^/scenarios of the whole suite passed: /'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
