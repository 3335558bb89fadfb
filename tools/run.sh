#!/bin/bash
# `make run`: builds the server and serves on the embedded store, with a line to try.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_packages.sh build
tools/build.sh release memoryd
cat <<'TRY'

Try it from another terminal:
  grpcurl -plaintext -d '{"session_id":"s1","messages":[{"role":"user","text":"Hello, world!"}]}' \
    localhost:50051 memoryd.v1.MemoryService/Put
  grpcurl -plaintext -d '{"session_id":"s1"}' localhost:50051 memoryd.v1.MemoryService/Get

TRY
exec build/bin/memoryd "$@"
