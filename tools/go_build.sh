#!/bin/bash
# Builds the programs on the Go client that tests run: build/go/client_driver, client_writer, client_load,
# forms_driver.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/go_env.sh
. tools/go_env.sh
mkdir -p build/go
for name in driver writer load; do
  (cd clients/go && go build -o "../../build/go/client_$name" "./internal/client$name")
done
(cd clients/go && go build -o ../../build/go/forms_driver ./internal/formsdriver)
