#!/bin/bash
# fuzz.sh RUNS [TARGET...]: lets libFuzzer run the targets of tests/fuzz (all when none is given)
# until each has had RUNS executions, as many targets at a time as JOBS says (the cores there are).
# What was found and how much was done is kept in build/fuzz, so that a run that was broken off goes
# on where it was. A target ends at its first crash: the input is in build/fuzz/crashes/TARGET, and
# goes from there into tests/fuzz/corpus when what it shows is mended.
set -euo pipefail
cd "$(dirname "$0")/.."

# Seconds that are lost at most when a run is broken off.
interval=120

fuzz() {
  local name=$1 runs=$2 home=build/fuzz done=0 crashes now
  local corpus=$home/corpus/$name found=$home/crashes/$name log=$home/logs/$name.log
  mkdir -p "$corpus" "$found" "$home/executions" "$home/logs"
  [ -f "$home/executions/$name" ] && done=$(<"$home/executions/$name")
  local max_len=512
  # What they cost grows with the length, and what is long holds nothing new.
  case $name in terms_fuzz) max_len=64 ;; tokens_fuzz) max_len=160 ;; esac
  # Edges without their counts, which cost a third of the time.
  local options=("-max_len=$max_len" -timeout=60 -rss_limit_mb=2048 -reload=0 -entropic=0
    -use_counters=0 -print_final_stats=1 "-artifact_prefix=$found/")
  [ -f "tests/fuzz/dictionaries/$name" ] && options+=("-dict=tests/fuzz/dictionaries/$name")
  crashes=$(find "$found" -type f | wc -l)
  while [ "$crashes" -eq 0 ] && [ "$done" -lt "$runs" ]; do
    nice -n 10 "$home/tests/bin/$name" "${options[@]}" \
      -runs=$((runs - done)) "-max_total_time=$interval" \
      "$corpus" "tests/fuzz/corpus/${name%_fuzz}" >"$log" 2>&1 || true
    crashes=$(find "$found" -type f | wc -l)
    now=$(awk '/number_of_executed_units/ { print $2 }' "$log")
    if [ -z "$now" ] && [ "$crashes" -eq 0 ]; then
      echo "$name: broken off, see $log" >&2
      return 1
    fi
    done=$((done + ${now:-0}))
    echo "$done" >"$home/executions/$name.new"
    mv "$home/executions/$name.new" "$home/executions/$name"
  done
  echo "$name: $done executions, $crashes crashes"
  [ "$crashes" -eq 0 ]
}

# Of itself, for one target.
if [ "${1:-}" = --one ]; then
  fuzz "$2" "$3"
  exit
fi

runs=${1:?usage: fuzz.sh RUNS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
fi
tools/install_packages.sh build fuzz
tools/build.sh fuzz memoryd_vocabulary "${targets[@]}"

export MEMORYD_VOCABULARY_DIR=$PWD/build/fuzz/share/memoryd
# Short stacks of allocations: most of the time would go into them.
export ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=4
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
printf '%s\0' "${targets[@]}" | xargs -0 -P "${JOBS:-$(nproc)}" -I '{}' "$0" --one '{}' "$runs"
