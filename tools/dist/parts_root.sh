#!/bin/bash
# parts_root.sh MAP PACKAGES ROOT
# Fills ROOT with what Debian says of that which is linked into the binary, as tools/runtime_root.sh does for the image:
# entries of packages under var/lib/dpkg/status.d, licences under usr/share/doc. MAP is the linker's;
# PACKAGES is what static_libraries.sh made of those that are not Debian's.
set -euo pipefail
map=${1:?usage: parts_root.sh MAP PACKAGES ROOT}
sources=${2:?usage: parts_root.sh MAP PACKAGES ROOT}
root=${3:?usage: parts_root.sh MAP PACKAGES ROOT}
mkdir -p "$root/var/lib/dpkg/status.d" "$root/etc"
cp --dereference /etc/os-release "$root/etc"

# Those of which the linker took a member.
mapfile -t libraries < <(sed -n 's/^\(\/usr\/lib\/.*\.a\)(.*)$/\1/p' "$map" | xargs realpath | sort -u)
# Of those that are headers only, the headers are in the binary.
mapfile -t packages < <({
  dpkg-query -S "${libraries[@]}" | cut -d: -f1
  printf '%s\n' libboost-dev libcli11-dev nlohmann-json3-dev
} | sort -u)
for package in "${packages[@]}"; do
  # What comes of a package that only names another one.
  while ! [ -e "/usr/share/doc/$package/copyright" ]; do
    package=$(dpkg-query -W -f '${Depends}' "$package" | sed 's/[ ,].*//')
  done
  dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
  install -D -m 0644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
for package in "$sources"/*; do
  install -m 0644 "$package/entry" "$root/var/lib/dpkg/status.d/${package##*/}"
  install -D -m 0644 "$package/copyright" "$root/usr/share/doc/${package##*/}/copyright"
done
