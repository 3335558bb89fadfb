#!/bin/bash
# `make run`: builds the server and serves on the embedded store, with a line to try.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_packages.sh build
tools/build.sh release memoryd
cat <<'TRY'

Try it from another terminal:
  build/bin/memoryd put s1 "Hello, world!"
  build/bin/memoryd get s1
With --http-listen=127.0.0.1:50080, http://127.0.0.1:50080/ui shows it in a browser.

TRY
exec build/bin/memoryd "$@"
