#!/bin/bash
# Formats the C++ sources in place; with --check only names the files that differ, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
sources() { find core cli server clients tests \( -name '*.h' -o -name '*.cc' \) -print0; }

if [ "${1:-}" != --check ]; then
  sources | xargs -0 clang-format-14 --style=file -i
  exit
fi
differing=$(sources | xargs -0 clang-format-14 --style=file --dry-run 2>&1 |
  sed -nE 's/^([^: ]+):[0-9]+:.*clang-format.*/\1/p' | sort -u)
[ -z "$differing" ] && exit 0
# shellcheck disable=SC2016  # Nothing to expand.
echo 'Not formatted; run `make format`:'
echo "$differing"
exit 1
