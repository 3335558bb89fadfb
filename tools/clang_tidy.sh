#!/bin/bash
# Runs clang-tidy over core/ and server/, or over the files given, by the clang preset's database.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(find core server -name '*.cc' ! -name '*_test.cc' | sort)
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "${JOBS:-$(nproc)}" clang-tidy-14 -p build/clang --quiet 2>/dev/null
echo "clang-tidy: ${#files[@]} files clean"
