#!/bin/bash
# base_image.sh: makes debian:13-slim out of Debian's packages, for machines that reach a package
# mirror but no image registry. Needs root, mmdebstrap and podman.
set -euo pipefail
tar=$(mktemp --suffix=.tar)
trap 'rm -f "$tar"' EXIT
mmdebstrap --quiet --variant=minbase trixie "$tar"
podman import --quiet \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'CMD ["bash"]' "$tar" docker.io/library/debian:13-slim
