#!/bin/bash
# build.sh PRESET [TARGET...]: configures and builds one preset of CMakePresets.json, in BINARY_DIR where that is
# set, else in the preset's folder.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: build.sh PRESET [TARGET...]}
shift
configured=(--preset "$preset")
built=(--preset "$preset")
if [ -n "${BINARY_DIR:-}" ]; then
  configured+=(-B "$BINARY_DIR")
  built=("$BINARY_DIR")
fi
log=${BINARY_DIR:-build}/configure-$preset.log
mkdir -p "$(dirname "$log")"
# So that clones in other folders find in the cache what one of them has built.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# What is compiled with precompiled headers is not cached otherwise; nothing of ours says __TIME__.
export CCACHE_SLOPPINESS=pch_defines,time_macros
cmake "${configured[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build "${built[@]}" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}
