#!/bin/bash
# Formats the C++ sources in place; with --check only names those that differ.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
find core server clients tests \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 clang-format-14 --style=file "${mode[@]}"
