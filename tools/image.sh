#!/bin/bash
# image.sh [NAME [DOCKERFILE]]: builds an image of this tree, memoryd's by default, as NAME (memoryd:VERSION, the
# one that the chart and the manifests look for) with the engine that is there, and prints its size.
# image.sh --name: prints that name. Environment:
#   ENGINE     docker, podman or buildah (default: the first of them that works)
#   BASE       the Debian image to build in (default debian:13-slim)
#   JOBS       compilers at once
#   WORD_VECTORS  ON, or OFF for an image without the vectors of words (default ON)
#   SOURCE_DATE_EPOCH  the time of every file and of the image (default 1980, so that layers of an earlier
#              build, and ccache's objects, which know the compiler by its time, are the same; docker
#              sets the image's alone)
#   NO_CACHE   not empty: takes no layer of an earlier build
#   CA_BUNDLE  certificates the build trusts (default: those this machine trusts)
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(memoryd VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
if [ "${1:-}" = --name ]; then
  echo "memoryd:$version"
  exit
fi
name=${1:-memoryd:$version}
dockerfile=${2:-Dockerfile}

engine=${ENGINE:-}
if [ -z "$engine" ]; then
  if docker info >/dev/null 2>&1; then engine=docker
  elif command -v podman >/dev/null; then engine=podman
  elif command -v buildah >/dev/null; then engine=buildah
  else
    echo "image.sh: no docker, podman or buildah here; on Debian: apt-get install buildah" >&2
    exit 1
  fi
fi

arguments=(-f "$dockerfile" -t "$name")
[ -z "${BASE:-}" ] || arguments+=(--build-arg "BASE=$BASE")
[ -z "${JOBS:-}" ] || arguments+=(--build-arg "JOBS=$JOBS")
[ -z "${WORD_VECTORS:-}" ] || arguments+=(--build-arg "WORD_VECTORS=$WORD_VECTORS")
[ -z "${NO_CACHE:-}" ] || arguments+=(--no-cache)
epoch=${SOURCE_DATE_EPOCH:-315532800}
revision=$(git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || echo unknown)
arguments+=(--build-arg "REVISION=$revision" --build-arg "SOURCE_DATE_EPOCH=$epoch")
ca_bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
[ ! -e "$ca_bundle" ] || arguments+=(--secret "id=ca_bundle,src=$ca_bundle")

status=0
if [ "$engine" = docker ]; then
  DOCKER_BUILDKIT=1 docker build "${arguments[@]}" . || status=$?
else
  tools/with_engine.sh "$engine" build --layers --timestamp "$epoch" \
    "${arguments[@]}" . || status=$?
fi
if [ "$status" -ne 0 ]; then
  echo "image.sh: if the base image could not be pulled, tools/base_image.sh makes it" >&2
  exit "$status"
fi

if [ "$engine" = buildah ]; then
  buildah images --format '{{.Name}}:{{.Tag}} {{.Size}}' "$name"
else
  "$engine" image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' "$name"
fi
