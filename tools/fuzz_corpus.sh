#!/bin/bash
# fuzz_corpus.sh [TARGET...]: adds to tests/fuzz/corpus inputs of the fuzzers in build/fuzz that reach
# what those there do not: the fewest, of these the smallest, until a target has 48. They then run
# with every `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
most=48

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for corpus in build/fuzz/corpus/*_fuzz; do targets+=("$(basename "$corpus")"); done
fi
export MEMORYD_VOCABULARY_DIR=$PWD/build/fuzz/share/memoryd
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in "${targets[@]}"; do
  corpus=tests/fuzz/corpus/${name%_fuzz}
  merged=$scratch/$name
  cp -r "$corpus" "$merged"
  # Branches alone, not how often each is taken: else they are thousands.
  nice -n 10 "build/fuzz/tests/bin/$name" -set_cover_merge=1 -use_counters=0 -max_len=512 \
    "$merged" "build/fuzz/corpus/$name" >"build/fuzz/logs/$name.merge.log" 2>&1
  room=$((most - $(find "$corpus" -type f | wc -l)))
  find "$merged" -type f -printf '%s %f\n' | sort -n | while read -r _ file; do
    [ -f "$corpus/$file" ] || echo "$merged/$file"
  done | awk -v room="$room" 'NR <= room' | xargs -r cp -t "$corpus"
  find "$corpus" -type f -printf '%s\n' |
    awk -v name="$name" '{ bytes += $1 } END { print name ": " NR " files, " bytes " bytes" }'
done
