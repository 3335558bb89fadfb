#!/bin/bash
# static_libraries.sh FOLDER: fills FOLDER/lib with static archives of those libraries of memoryd of which
# Debian has none, or one that drags in more than is used: {fmt}, spdlog, prometheus-cpp, and libcurl and libpq without
# LDAP, Kerberos, SSH and the like. They are built from Debian's own sources, which apt checks by their signatures,
# with its patches and compiler flags. FOLDER/packages has what Debian says of each: an entry as dpkg's, and the
# licence. Makes nothing anew when all that is there, of the sources that are the newest.
#   DEBIAN_MIRROR, DEBIAN_SECURITY_MIRROR   whence the sources come
set -euo pipefail
folder=$(realpath -m "${1:?usage: static_libraries.sh FOLDER}")
mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9

# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
work=$folder/work
rm -rf "$work"
mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,parts,state} "$work/prefix"
cat >"$work/apt/parts/debian.sources" <<END
Types: deb-src
URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}
Suites: $release $release-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: ${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
Suites: $release-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
# Lists of its own, so that the machine's need no deb-src, and no root is asked for.
apt=(-q -o "Dir::State=$work/apt/state" -o "Dir::State::Lists=$work/apt/lists"
  -o "Dir::State::Status=/var/lib/dpkg/status" -o "Dir::Cache=$work/apt/cache"
  -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/apt/parts" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update

postgresql=$(pg_config --version 2>/dev/null | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
postgresql=postgresql-${postgresql:-15}
# newest SOURCE: the newest version that the mirror can give; it may tell of one that it has not yet, or no more.
newest() {
  local version
  for version in $(apt-cache "${apt[@]}" showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -urV); do
    if (cd "$work" && apt-get "${apt[@]}" source --download-only --dsc-only "$1=$version" >/dev/null); then
      echo "$version"
      return
    fi
    echo "static_libraries.sh: $1 $version can't be had" >&2
  done
  echo "static_libraries.sh: no source of $1 can be had" >&2
  return 1
}
declare -A chosen
stamp=$(sha256sum <"$0")
for source in fmtlib spdlog prometheus-cpp curl "$postgresql"; do
  chosen[$source]=$(newest "$source")
  stamp+=$'\n'"$source ${chosen[$source]}"
done
if [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$stamp" ]; then
  rm -rf "$work"
  exit 0
fi
rm -rf "$folder/lib" "$folder/packages" "$folder/.stamp"
mkdir -p "$folder/lib"

# unpack SOURCE: into $work/SOURCE, the version that was chosen.
unpack() {
  local version=${chosen[$1]}
  cd "$work"
  apt-get "${apt[@]}" source --download-only "$1=$version"
  dpkg-source --no-check -x "$1_${version#*:}.dsc" "$1"
  mkdir -p "$folder/packages/$1"
  printf 'Package: %s\nVersion: %s\nArchitecture: source\n%s\n' "$1" "$version" \
    "$(grep '^Maintainer: ' "$1_${version#*:}.dsc")" >"$folder/packages/$1/entry"
  cp "$1/debian/copyright" "$folder/packages/$1"
}

for flags in CFLAGS CXXFLAGS CPPFLAGS LDFLAGS; do
  value=$(DEB_BUILD_MAINT_OPTIONS=hardening=+all,-bindnow dpkg-buildflags --get $flags)
  # Names of folders would be part of what is made.
  export "$flags=${value//-ffile-prefix-map=$PWD=./} -ffile-prefix-map=$work=."
done
LDFLAGS=${LDFLAGS% -ffile-prefix-map*}
export CFLAGS="$CFLAGS -fPIC -ffunction-sections -fdata-sections"
export CXXFLAGS="$CXXFLAGS -fPIC -ffunction-sections -fdata-sections"
jobs=${JOBS:-$(nproc)}

by_cmake() { # by_cmake SOURCE OPTION...
  local source=$1
  shift
  cmake -S "$work/$source" -B "$work/$source/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$work/prefix" "$@"
  ninja -C "$work/$source/build" -j "$jobs" install
}

unpack fmtlib
by_cmake fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
unpack spdlog
by_cmake spdlog -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF
unpack prometheus-cpp
by_cmake prometheus-cpp -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_COMPRESSION=OFF -DENABLE_TESTING=OFF

unpack curl
cd "$work/curl"
# Certificates as OpenSSL is told to find them, SSL_CERT_FILE and SSL_CERT_DIR included. Random numbers from OpenSSL
# too, since arc4random wants glibc 2.36.
ac_cv_func_arc4random=no ./configure --prefix="$work/prefix" --disable-shared --enable-static --with-openssl --with-nghttp2 --with-zlib \
  --without-ca-bundle --without-ca-path --with-ca-fallback --without-brotli --without-zstd --without-libidn2 \
  --without-libpsl --without-librtmp --without-libssh2 --without-libssh --without-gssapi --disable-ldap \
  --disable-ldaps --disable-ftp --disable-file --disable-dict --disable-telnet --disable-tftp --disable-pop3 \
  --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt --disable-rtsp --disable-manual \
  --disable-ntlm --disable-alt-svc --disable-hsts --enable-threaded-resolver
make -C lib -j "$jobs" install

unpack "$postgresql"
cd "$work/$postgresql"
# Where Debian's PostgreSQL has its socket is in Debian's patches.
./configure --prefix="$work/prefix" --sysconfdir=/etc/postgresql-common --with-ssl=openssl --without-readline \
  --without-zlib --without-gssapi --without-ldap --without-icu
make -C src/backend generated-headers
make -C src/interfaces/libpq -j "$jobs" all-static-lib
cp src/interfaces/libpq/libpq.a src/common/libpgcommon_shlib.a src/port/libpgport_shlib.a "$folder/lib"
cp "$work"/prefix/lib/lib{fmt,spdlog,prometheus-cpp-core,curl}.a "$folder/lib"
# The sources are large, and what was made of them is small.
rm -rf "$work"
echo "$stamp" >"$folder/.stamp"
