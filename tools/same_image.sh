#!/bin/bash
# same_image.sh NAME: builds the image NAME, which is of this tree, once more from its first layer, and fails
# when that is another image. It can be the same only as long as Debian's packages are, and the commit; objects
# may come from ccache, so that a compiler that makes two objects of one source is not seen.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?usage: same_image.sh NAME}
engine=${ENGINE:-podman}
identify() { tools/with_engine.sh "$engine" image inspect --format '{{.Id}}' "$1"; }
NO_CACHE=1 tools/image.sh memoryd:again
first=$(identify "$name") again=$(identify memoryd:again)
tools/with_engine.sh "$engine" untag memoryd:again memoryd:again
echo "$name: $first, again: $again"
[ "$first" = "$again" ]
