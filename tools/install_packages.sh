#!/bin/bash
# install_packages.sh SECTION...: installs the Debian packages of these sections of packages.txt that are
# missing, with sudo when not root. Silent when nothing is missing.
set -euo pipefail
list="$(dirname "$0")/packages.txt"

wanted=$(awk -v sections="$*" '
  /^\[/ { name = substr($1, 2, length($1) - 2); next }
  /^[^#]/ && index(" " sections " ", " " name " ") { print $1 }' "$list")

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | awk '$1 == "installed" { print $2 }')
names=$(comm -23 <(sort -u <<<"$wanted") <(sort -u <<<"$installed"))
[ -z "$names" ] && exit 0
mapfile -t missing <<<"$names"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing Debian packages, and neither root nor sudo: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
