#!/bin/bash
# runtime_root.sh BINARY FOLDER
# Fills FOLDER/root with all that BINARY needs of this Debian to run where nothing else is: its shared
# libraries and the loader, certificate authorities, a user; FOLDER/state is that user's, and empty.
#
# The packages the libraries come from are named under var/lib/dpkg/status.d, where vulnerability
# scanners look for them, each with its licence under usr/share/doc.
set -euo pipefail
binary=${1:?usage: runtime_root.sh BINARY FOLDER}
root=${2:?usage: runtime_root.sh BINARY FOLDER}/root
mkdir -p "$root/var/lib/dpkg/status.d" "$root/etc"
install -d -m 0700 "$2/state"

linked=$(ldd "$binary")
if grep 'not found' <<<"$linked" >&2; then exit 1; fi
mapfile -t libraries < <(awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' <<<"$linked")
cp --dereference --parents "${libraries[@]}" "$root"
cp --dereference --parents /etc/ssl/certs/ca-certificates.crt /etc/os-release /etc/debian_version \
  "$root"

# By file name alone: dpkg knows /usr/lib/NAME where the loader says /lib/NAME. A loader that is diverted has
# lines besides, which name no package.
mapfile -t packages < <(dpkg-query -S "${libraries[@]/#*\//*/}" | sed '/^diversion by /d' | cut -d: -f1 | sort -u)
for package in "${packages[@]}" ca-certificates base-files; do
  dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
  cp --dereference --parents "/usr/share/doc/$package/copyright" "$root"
done

# libpq asks for the name of the user; the C library for the order of host look-ups.
echo 'memoryd:x:65532:65532::/var/lib/memoryd:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'memoryd:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
