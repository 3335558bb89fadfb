#!/bin/bash
# build.sh PRESET [TARGET...]: configures and builds one preset of CMakePresets.json.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: build.sh PRESET [TARGET...]}
shift
log=build/configure-$preset.log
mkdir -p build
# So that clones in other folders find in the cache what one of them has built.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# What is compiled with precompiled headers is not cached otherwise; nothing of ours says __TIME__.
export CCACHE_SLOPPINESS=pch_defines,time_macros
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}
