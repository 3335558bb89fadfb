#!/bin/bash
# link_static.sh ARCHIVES COMMAND...
# Runs COMMAND, a link by g++ of an executable, with the static archive in place of every shared library that it names: that of
# the folder ARCHIVES, else Debian's. What has none, and the C library, stay shared. The linker's map goes
# beside the executable, as NAME.map.
set -euo pipefail
archives=${1:?usage: link_static.sh ARCHIVES COMMAND...}
shift
system=$(dirname "$(g++ -print-file-name=libz.a)")

# archive NAME: sets `found` to the archive of a library, or to nothing.
archive() {
  found=
  case $1 in c | m | dl | rt | pthread | resolv | atomic) return ;; esac
  for folder in "$archives" "$system"; do
    if [ -e "$folder/lib$1.a" ]; then
      found=$folder/lib$1.a
      return
    fi
  done
}

command=() all=() output=
while [ $# -gt 0 ]; do
  found=
  case $1 in
    -o) output=$2 ;;
    -l*) archive "${1#-l}" ;;
    *.so | *.so.*)
      name=${1##*/lib}
      archive "${name%%.so*}"
      ;;
  esac
  command+=("${found:-$1}")
  [ -z "$found" ] || all+=("$found")
  shift
done
# What those need in their turn.
for name in jansson pgcommon_shlib pgport_shlib; do
  archive "$name"
  all+=("${found:?link_static.sh: no archive of $name}")
done
# Once more, in any order: shared libraries know what they need, archives don't.
exec "${command[@]}" -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,-O1 "-Wl,-Map=$output.map" \
  -Wl,--start-group "${all[@]}" -Wl,--end-group -ldl -lm -lrt
