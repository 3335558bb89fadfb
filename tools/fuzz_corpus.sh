#!/bin/bash
# fuzz_corpus.sh [TARGET...]: adds to tests/fuzz/corpus the fewest inputs that reach what the fuzzers
# of build/fuzz have reached and those there do not. They then run with every `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for corpus in build/fuzz/corpus/*_fuzz; do targets+=("$(basename "$corpus")"); done
fi
export MEMORYD_VOCABULARY_DIR=$PWD/build/fuzz/share/memoryd
for name in "${targets[@]}"; do
  # Branches alone, not how often: else they are thousands.
  nice -n 10 "build/fuzz/tests/bin/$name" -set_cover_merge=1 -use_counters=0 -max_len=512 \
    "tests/fuzz/corpus/${name%_fuzz}" "build/fuzz/corpus/$name" >"build/fuzz/logs/$name.merge.log" 2>&1
  find "tests/fuzz/corpus/${name%_fuzz}" -type f -printf '%s\n' |
    awk -v name="$name" '{ bytes += $1 } END { print name ": " NR " files, " bytes " bytes" }'
done
