#!/bin/bash
# To be sourced in the repository's folder: makes `suite`, the folder of the packages, unless it is up to date,
# and puts the Node of tools/node_env.sh first in PATH.
. tools/node_env.sh
suite=build/conformance
stamp=$(sha256sum tests/conformance/requirements.txt tests/conformance/package.json)
if [ "$(cat "$suite/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo 'Making build/conformance'
  rm -rf "$suite"
  mkdir -p "$suite"
  cp tests/conformance/package.json "$suite"
  npm --prefix "$suite" install --no-package-lock
  echo "$stamp" >"$suite/.stamp"
fi
