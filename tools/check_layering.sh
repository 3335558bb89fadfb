#!/bin/bash
# Who may include whom. Debian puts all headers into one folder, so linking alone enforces nothing.
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
EXCEPT='^core/models/http_client\.cc:' \
  forbid 'only core/models/http_client.cc knows libcurl' 'curl/' "${sources[@]}"
EXCEPT='_test\.cc:' forbid "the server serves gRPC by itself: gRPC's library is for clients" \
  '(grpc|grpcpp|grpc\+\+)/[^"]*\.h>|grpcpp/' server
EXCEPT='^server/http2/|_test\.cc:' forbid 'only server/http2 knows nghttp2' 'nghttp2/' server core
EXCEPT='^server/(http2/|metrics_listener\.cc:)' \
  forbid 'only server/http2 and server/metrics_listener.cc know Boost' 'boost/' "${sources[@]}"
EXCEPT='^server/span_exporter_otlp\.cc:' \
  forbid 'only server/span_exporter_otlp.cc knows opentelemetry-cpp' 'opentelemetry/' "${sources[@]}"
forbid "the operators' commands know the wire and core/base" \
  '(server|clients)/|core/([^b]|b[^a])' cli
EXCEPT='^server/main\.cc:' forbid "only main.cc knows the operators' commands" 'cli/' server
[ ! -d clients ] || forbid 'clients know the wire alone' '(core|cli|server)/' clients
locking=(core)
[ ! -d server ] || locking+=(server)
forbid 'absl::Mutex gives false races under ThreadSanitizer: use core/base/mutex.h' \
  'absl/synchronization/mutex\.h' "${locking[@]}"

[ "$failed" -eq 0 ] && echo 'layering: clean'
exit "$failed"
