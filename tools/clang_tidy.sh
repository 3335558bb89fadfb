#!/bin/bash
# clang_tidy.sh [--analyzer] [FILE...]
# Runs clang-tidy over core/, cli/, server/ and clients/cpp/, or over the files given, by the database of
# the asan preset, which must be built; with --analyzer the static analyzer too, which takes five times as long.
set -euo pipefail
cd "$(dirname "$0")/.."
checks=(--checks='-clang-analyzer-*')
if [ "${1:-}" = --analyzer ]; then
  checks=()
  shift
fi
if [ $# -gt 0 ]; then
  files=("$@")
else
  # One of the two that export spans, or don't, is no part of the build: its headers may not be there.
  other=span_exporter_otlp.cc
  ! grep -q "/$other\"" build/asan/compile_commands.json || other=span_exporter_none.cc
  mapfile -t files < <(
    find core cli server clients/cpp/memoryd -name '*.cc' ! -name '*_test.cc' ! -name "$other" | sort)
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "${JOBS:-$(nproc)}" clang-tidy-14 -p build/asan --quiet "${checks[@]}" 2>/dev/null
echo "clang-tidy: ${#files[@]} files clean"
