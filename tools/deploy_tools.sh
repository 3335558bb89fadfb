#!/bin/bash
# deploy_tools.sh helm|kube-score: the path of the tool, of exactly this version, which is built into
# build/deploy-tools when it is not there. Needs Go 1.26: neither is a package of Debian. The module has to
# have the checksum that stands here, what it depends on those of its own go.sum or of Go's database.
set -euo pipefail
cd "$(dirname "$0")/.."
linker=
case ${1:-} in
  helm)
    module=helm.sh/helm/v3 version=v3.22.0 package=cmd/helm
    checksum=h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=
    # The Kubernetes it renders for where it asks none, which Helm's own build sets too.
    linker='-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=35' ;;
  kube-score)
    module=github.com/zegl/kube-score version=v1.20.0 package=cmd/kube-score
    checksum=h1:J1VqK86SunV4Gg8emPTmwUVxe0rmXnAs5K9ZUbGMKR8= ;;
  *) echo "usage: $0 helm|kube-score" >&2; exit 2 ;;
esac

folder=$PWD/build/deploy-tools/$1-$version
if [ ! -x "$folder/$1" ]; then
  command -v go >/dev/null || { echo "$0: $1 is built with Go 1.26, which is not here" >&2; exit 1; }
  found=$(cd / && go mod download -json "$module@$version" | sed -n 's/.*"Sum": "\(.*\)".*/\1/p')
  if [ "$found" != "$checksum" ]; then
    echo "$0: $module $version has the checksum $found, not $checksum" >&2
    exit 1
  fi
  echo "Building $1 $version" >&2
  (cd / && GOBIN=$folder go install -ldflags "$linker" "$module/$package@$version")
fi
echo "$folder/$1"
