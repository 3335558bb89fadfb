#!/bin/bash
# with_debian.sh 13|experimental COMMAND [ARG...]
# Runs COMMAND on Debian 13, or on unstable with gRPC of experimental, in this folder at its own path: in
# build/debianRELEASE/root, which mmdebstrap makes where it is missing. Needs root. What is mounted there is seen by
# COMMAND alone and gone with it; COMMAND has this script's process id, so that signals reach it. APT_OPTION is one
# of apt.conf's for that root, such as 'Acquire::Check-Valid-Until "false";' where the mirror is an old one.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 1 ] || { echo "usage: $0 13|experimental COMMAND [ARG...]" >&2; exit 2; }
release=$1
shift
suite=trixie
archives=()
if [ "$release" = experimental ]; then
  suite=sid
  archive='deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian'
  archives=("$archive sid main" "$archive experimental main")
fi
root=$PWD/build/debian$release/root
if [ ! -d "$root" ]; then
  rm -rf "$root.new"
  mkdir -p "$root.new"
  # What a crash leaves of it is made anew.
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io ${APT_OPTION:+--aptopt="$APT_OPTION"} \
    --include=ca-certificates "$suite" "$root.new" "${archives[@]}"
  if [ "$release" = experimental ]; then
    # apt takes from there only what is named.
    printf '%s\n' 'Package: src:grpc src:protobuf src:abseil' 'Pin: release a=experimental' 'Pin-Priority: 990' \
      >"$root.new/etc/apt/preferences.d/grpc"
  fi
  mv "$root.new" "$root"
fi
# shellcheck disable=SC2016  # The inner shell expands it.
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
