#!/bin/bash
# Connect's clients for Node and for browsers, on the HTTP port of a server.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/conformance/node_env.sh
build/venv/bin/python tests/conformance/connect_clients.py "$(command -v node)" "$suite"
