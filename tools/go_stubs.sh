#!/bin/bash
# Makes clients/go/memorydpb from proto/, by the generators that clients/go/tools/go.mod pins. With --check
# only names the files that differ, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/go_env.sh
. tools/go_env.sh
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for plugin in protoc-gen-go protoc-gen-go-grpc; do
  (cd clients/go/tools && go build -o "$made/bin/" "$(go list -f '{{.ImportPath}}' tool | grep "/$plugin\$")")
done
module=$(sed -n 's/^module //p' clients/go/go.mod)
# The compiler's own version is no part of what is compared: Debian's and that of grpcio-tools differ.
PATH="$made/bin:$PATH" protoc -I proto --go_out="$made" --go_opt=module="$module" \
  --go-grpc_out="$made" --go-grpc_opt=module="$module" proto/memoryd/v1/*.proto
sed -i -E '/^\/\/ (- |\t)?protoc +\(?v/d' "$made"/memorydpb/*.go
if [ "${1:-}" = --check ]; then
  diff -rq "$made/memorydpb" clients/go/memorydpb
else
  rm -rf clients/go/memorydpb
  cp -r "$made/memorydpb" clients/go/memorydpb
fi
