#!/bin/bash
# Builds clients/typescript in build/typescript, where its packages are installed: code from the protos, then
# the package in both kinds of modules, and the tests.
#
# usage: typescript.sh [lint|test|conform|pack|runtimes|frameworks|rates]...     default: builds only
# `runtimes` and `frameworks` need `pack`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 9>build/.typescript.lock
flock 9
. tools/node_env.sh
made=build/typescript
modules=$made/node_modules
mkdir -p "$made"
stamp=$(sha256sum clients/typescript/package.json)
cp clients/typescript/package.json clients/typescript/tsconfig*.json clients/typescript/eslint.config.js \
  clients/typescript/*.md LICENSE "$made"
if [ "$(cat "$made/.stamp" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$modules"
  npm --prefix "$made" install --no-package-lock
  echo "$stamp" >"$made/.stamp"
fi
rm -rf "$made/src" "$made/test" "$made/dist" "$made/build-test" "$made/examples"
cp -r clients/typescript/src clients/typescript/test "$made"
mkdir "$made/examples"
cp examples/*.mjs "$made/examples" # Run by the tests.
mkdir "$made/src/gen"
protoc -I proto --plugin=protoc-gen-es="$modules/.bin/protoc-gen-es" --es_out="$made/src/gen" \
  --es_opt=target=ts,import_extension=js proto/memoryd/v1/*.proto proto/google/rpc/error_details.proto
for kind in module commonjs; do
  # Which kind of modules tsc makes is what the package.json beside the sources says.
  name=esm
  [ "$kind" = commonjs ] && name=cjs
  echo "{\"type\": \"$kind\"}" >"$made/src/package.json"
  "$modules/.bin/tsc" -p "$made/tsconfig.json" --outDir "$made/dist/$name"
  cp "$made/src/package.json" "$made/dist/$name"
done
rm "$made/src/package.json"
"$modules/.bin/tsc" -p "$made/tsconfig.test.json"
for step in "$@"; do
  case $step in
    lint) (cd "$made" && node_modules/.bin/eslint src test) ;;
    test) build/venv/bin/python tests/client_conformance/node_tests.py node "$made"/build-test/*_test.js ;;
    conform)
      build/venv/bin/python tests/client_conformance/run.py typescript
      build/venv/bin/python tests/client_conformance/forms.py typescript
      ;;
    pack)
      rm -f "$made"/*.tgz
      (cd "$made" && npm pack --silent && du -h ./*.tgz)
      build/venv/bin/python tests/client_conformance/npm_install.py \
        node "$node/lib/node_modules/npm/bin/npm-cli.js" "$made"/*.tgz
      ;;
    runtimes) # Of what `pack` has packed.
      build/venv/bin/python tests/client_conformance/runtimes.py \
        "node $node/lib/node_modules/npm/bin/npm-cli.js --loglevel=error --no-audit --no-fund" "$made"/*.tgz
      ;;
    frameworks)
      tools/with_postgres.sh build/venv/bin/python tests/client_conformance/node_frameworks.py \
        node "$node/lib/node_modules/npm/bin/npm-cli.js" "$made"/*.tgz
      ;;
    rates)
      for method in put get; do
        build/venv/bin/python tests/benchmark/clients.py --clients asyncio typescript --method "$method"
      done
      ;;
    *) echo "no such step: $step" >&2; exit 2 ;;
  esac
done
