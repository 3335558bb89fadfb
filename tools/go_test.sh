#!/bin/bash
# Tests clients/go: generated code, gofmt, vet, staticcheck, its own tests with the server, and the cases that
# hold for every client. With --full also 10,000 Puts over 20 restarts on each store, and the calls a second
# beside those of C++ and Python. Modules come from Go's proxy once, then from its cache.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/go_env.sh
. tools/go_env.sh
MEMORYD_TEST_BINARY=$(realpath "${MEMORYD_TEST_BINARY:-build/bin/memoryd}")
export MEMORYD_TEST_BINARY
python=build/venv/bin/python

tools/go_stubs.sh --check
unformatted=$("$(go env GOROOT)/bin/gofmt" -l clients/go)
if [ -n "$unformatted" ]; then
  echo "Not formatted by gofmt: $unformatted"
  exit 1
fi
mkdir -p build/go
(cd clients/go/tools && go build -o ../../../build/go/ honnef.co/go/tools/cmd/staticcheck)
staticcheck=$PWD/build/go/staticcheck
(cd clients/go && go vet ./... && "$staticcheck" ./... && go test -count=1 ./...)
tools/go_build.sh
"$python" tests/client_conformance/run.py go
"$python" tests/client_conformance/forms.py go
if [ "${1:-}" = --full ]; then
  tools/with_postgres.sh "$python" tests/clients/restarts.py --client go
  "$python" tests/benchmark/clients.py --clients load asyncio go
fi
