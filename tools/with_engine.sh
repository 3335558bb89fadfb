#!/bin/bash
# with_engine.sh COMMAND [ARG...]
# Runs COMMAND with what podman and buildah need where no systemd runs, as inside a container or a
# bare virtual machine: no cgroup manager to ask, and only the limits this process has itself.
# Changes nothing elsewhere, nor what the caller has set.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -d /run/systemd/system ]; then
  export CONTAINERS_CONF=${CONTAINERS_CONF:-$PWD/tests/image/containers.conf}
  export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
fi
exec "$@"
