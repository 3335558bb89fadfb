#!/bin/bash
# with_debian13.sh COMMAND [ARG...]
# Runs COMMAND on Debian 13, in this folder at its own path: in build/debian13/root, which mmdebstrap makes
# where it is missing. Needs root. What is mounted there is seen by COMMAND alone and gone with it; COMMAND
# has this script's process id, so that signals reach it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARG...]" >&2; exit 2; }
root=$PWD/build/debian13/root
if [ ! -d "$root" ]; then
  rm -rf "$root.new"
  mkdir -p "$root.new"
  # What a crash leaves of it is made anew.
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io --include=ca-certificates trixie "$root.new"
  mv "$root.new" "$root"
fi
exec unshare --mount --propagation private bash -c '
  set -euo pipefail
  root=$1
  shift
  mkdir -p "$root$PWD"
  mount --bind "$PWD" "$root$PWD"
  for folder in /dev /proc /tmp; do mount --rbind "$folder" "$root$folder"; done
  # Where a proxy signs TLS itself, this Debian knows.
  bundle=/etc/ssl/certs/ca-certificates.crt
  [ ! -e "$bundle" ] || [ ! -e "$root$bundle" ] || mount --bind "$bundle" "$root$bundle"
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
  exec chroot "$root" env --chdir="$PWD" HOME=/root LC_ALL=C.UTF-8 PIP_CERT="$bundle" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' - "$root" "$@"
