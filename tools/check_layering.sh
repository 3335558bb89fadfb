#!/bin/bash
# Who may include whom, and that a name is one type's. Debian puts all headers into one folder, so
# linking alone enforces nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
# forbid REASON PATTERN PATH...: no file under PATH may include a header that matches PATTERN.
forbid() {
  local reason=$1 pattern=$2 found
  shift 2
  found=$(grep -rnE --include='*.h' --include='*.cc' --include='*.inc' \
    "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($pattern)" "$@" || true)
  [ -z "${EXCEPT:-}" ] || found=$(grep -vE "$EXCEPT" <<<"$found" || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$reason" "$found"
    failed=1
  fi
}
sources=()
for folder in core cli server clients tests; do
  [ ! -d "$folder" ] || sources+=("$folder")
done

forbid 'core knows no gRPC' '(grpc|grpcpp|grpc\+\+)/|[^>"]*\.pb\.h' core
forbid 'core knows no protobuf' 'google/' core
forbid 'core does not log' 'spdlog/' core
forbid 'core does not know what stands above it' '(cli|server|clients)/' core
EXCEPT='_test\.cc:' forbid 'only unit tests know tests/support' 'tests/' core server
EXCEPT='^(core/storage/postgres|tests)/' \
  forbid 'only core/storage/postgres knows PostgreSQL' 'pqxx/|libpq-fe\.h|libpq/' "${sources[@]}"
EXCEPT='^(core/storage/sqlite|tests)/' \
  forbid 'only core/storage/sqlite knows SQLite' 'sqlite3(ext)?\.h' "${sources[@]}"
EXCEPT='^core/llm/http_client\.cc:' \
  forbid 'only core/llm/http_client.cc knows libcurl' 'curl/' "${sources[@]}"
EXCEPT='_test\.cc:' forbid "the server serves gRPC by itself: gRPC's library is for clients" \
  '(grpc|grpcpp|grpc\+\+)/[^"]*\.h>|grpcpp/' server
EXCEPT='^server/http2/|_test\.cc:' forbid 'only server/http2 knows nghttp2' 'nghttp2/' server core
EXCEPT='^server/(http2?/|ops/metrics_listener\.cc:)' \
  forbid 'only server/http2, server/http and server/ops/metrics_listener.cc know Boost' 'boost/' "${sources[@]}"
EXCEPT='^server/ops/span_exporter_otlp\.cc:' \
  forbid 'only server/ops/span_exporter_otlp.cc knows opentelemetry-cpp' 'opentelemetry/' "${sources[@]}"

# arrows FOLDER...: each of these folders knows only those before it. Unit tests may know all.
arrows() {
  local lower=$1 folder
  shift
  for folder in "$@"; do
    # shellcheck disable=SC2086  # Several folders.
    EXCEPT='_test\.cc:|_test_support\.' \
      forbid "arrows point down: ${lower//|/, } stand below $folder" "$folder/" ${lower//|/ }
    lower="$lower|$folder"
  done
}
arrows core/base core/model core/items core/tokens core/policy core/llm core/retrieval core/blocks core/workers \
  core/storage core/calls core/sessions core/writes core/reads core/recall core/jobs core/lifecycle \
  core/engine
arrows server/wire server/settings server/access server/http2 server/http server/ops server/rpc
EXCEPT='_test\.cc:' forbid "what server's folders know of the process is given to them" \
  'server/[^/]*\.h"' server/wire server/settings server/access server/http2 server/http server/ops server/rpc

forbid "the operators' commands know the wire and core/base" \
  '(server|clients)/|core/([^b]|b[^a])' cli
EXCEPT='^server/main\.cc:' forbid "only main.cc knows the operators' commands" 'cli/' server
[ ! -d clients ] || forbid 'clients know the wire alone' '(core|cli|server)/' clients
locking=(core)
[ ! -d server ] || locking+=(server)
forbid 'absl::Mutex gives false races under ThreadSanitizer: use core/base/mutex.h' \
  'absl/synchronization/mutex\.h' "${locking[@]}"

# The linker takes one of two types of a name for both, and says nothing. In a namespace's braces a
# type begins its line.
# shellcheck disable=SC2016  # awk's own.
twice=$(find core server cli -name '*.h' -exec awk '
  {gsub(/MEMORYD_[A-Z_]+(\([^)]*\))? /, "")}
  /^namespace /{space = $2}
  /^(class|struct|enum class|enum) [A-Za-z_0-9]+/ && (/\{/ || !/;$/) {
    sub(/^enum class/, "enum"); sub(/[^A-Za-z_0-9].*/, "", $2); print space "::" $2 }' {} + |
  sort | uniq -d)
if [ -n "$twice" ]; then
  printf 'two types have one name:\n%s\n' "$twice"
  failed=1
fi

[ "$failed" -eq 0 ] && echo 'layering: clean'
exit "$failed"
