#!/bin/bash
# Checks every shell script of the repository, found by its first line, with shellcheck.
set -euo pipefail
cd "$(dirname "$0")/.."
# SC2115: `set -u` ends a script before `rm` sees a folder that nobody set.
git grep -lIE -e '^#!.*\b(ba|da)?sh\b' | while read -r file; do
  if head -n 1 "$file" | grep -qE '^#!.*\b(ba|da)?sh\b'; then
    printf '%s\0' "$file"
  fi
done | xargs -0 shellcheck --exclude=SC2115
