#!/usr/bin/env python3
"""sbom.py [--static] ROOT PREFIX: prints the software bill of materials of PREFIX, as SPDX 2.3 in JSON.

ROOT is what tools/runtime_root.sh filled, or with --static tools/dist/parts_root.sh, whose packages
are linked into the binary: every package is named under var/lib/dpkg/status.d, with its licence
under usr/share/doc. PREFIX has bin/memoryd, and in share/memoryd what it reads. The same files make
the same text: the time in it is SOURCE_DATE_EPOCH, or 1970.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
from typing import Any

# What share/memoryd may hold: whence, and under which licence. tools/tokens/fetch_vocabulary.py has the
# versions.
_VOCABULARY = ("tiktoken", "MIT", "tiktoken, which fetches it and names it by this checksum, is MIT, and "
               "has no other licence for it.")
_VECTORS = ("wordllama", "MIT", "Made from Llama 2's tokens: whether that model's licence reaches it is "
            "unsettled.")
DATA = {
    "cl100k_base.tiktoken": _VOCABULARY,
    "o200k_base.tiktoken": _VOCABULARY,
    "l2_supercat_256.safetensors": _VECTORS,
    "l2_supercat_256.tokenizer.json": _VECTORS,
    "tzdata.version": ("tzdata", "Apache-2.0", "Names by checksum the package whose zones stand beside "
                       "it; the IANA Time Zone Database is in the public domain."),
}
# No part, but the words that have to go with one.
LICENCES = {"l2_supercat_256.license.txt", "tiktoken.license.txt"}


def fields(entry: str) -> dict[str, str]:
    """The fields of an entry of dpkg's database; of those with more lines the first."""
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", entry, re.MULTILINE))


def licences(copyright_file: pathlib.Path) -> list[str]:
    """What a machine-readable copyright file calls its licences; empty where it is prose."""
    text = copyright_file.read_text(encoding="utf-8", errors="replace")
    if not text.startswith("Format:"):
        return []
    return sorted(set(re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE)))


def distribution(root: pathlib.Path) -> str:
    """`debian-12`, of etc/os-release."""
    text = (root / "etc/os-release").read_text(encoding="utf-8")
    values = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return f"{values['ID']}-{values['VERSION_ID']}"


def debian_package(name: str, root: pathlib.Path, release: str) -> dict[str, Any]:
    entry = fields((root / "var/lib/dpkg/status.d" / name).read_text(encoding="utf-8"))
    quoted = urllib.parse.quote(entry["Version"], safe="")
    declared = licences(root / "usr/share/doc" / name / "copyright")
    # "NAME (VERSION)", without what is that of the package. Advisories are of sources.
    of_source = re.fullmatch(r"(\S+)(?: \((\S+)\))?", entry.get("Source", name))
    if of_source is None:
        raise ValueError(f"{name}: the package's Source is {entry['Source']!r}")
    source, version = of_source.groups()
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": entry["Version"],
        "supplier": f"Organization: {entry['Maintainer']}",
        "sourceInfo": f"built from Debian's source {source} {version or entry['Version']}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        # Debian's short names are not all SPDX's, so they are no expression.
        "licenseComments": f"usr/share/doc/{name}/copyright: " + ("; ".join(declared) or "prose"),
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{urllib.parse.quote(name, safe='')}@{quoted}"
                f"?arch={entry['Architecture']}&distro={release}",
            }
        ],
    }


def sha256(path: pathlib.Path) -> list[dict[str, str]]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return [{"algorithm": "SHA256", "checksumValue": digest}]


def data_package(path: pathlib.Path) -> dict[str, Any]:
    project, licence, comment = DATA[path.name]
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', path.name)}",
        "name": path.name,
        "supplier": "NOASSERTION",
        "originator": "NOASSERTION",
        "sourceInfo": f"a file of {project}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": sha256(path),
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "licenseComments": comment,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "FILE",
    }


def own_package(prefix: pathlib.Path) -> dict[str, Any]:
    binary = prefix / "bin/memoryd"
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return {
        "SPDXID": "SPDXRef-memoryd",
        "name": "memoryd",
        "versionInfo": told.stdout.split()[1],
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": sha256(binary),
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }


def main() -> None:
    arguments = sys.argv[1:]
    is_static = arguments[:1] == ["--static"]
    if len(arguments) != 2 + is_static:
        sys.exit(__doc__)
    root, prefix = (pathlib.Path(argument) for argument in arguments[is_static:])
    release = distribution(root)
    names = sorted(path.name for path in (root / "var/lib/dpkg/status.d").iterdir())
    share = prefix / "share/memoryd"
    data = [*sorted(path for path in share.iterdir() if path.is_file()), share / "zoneinfo/tzdata.version"]
    linked = [debian_package(name, root, release) for name in names]
    brought = [data_package(path) for path in data if path.name not in LICENCES]
    packages = [own_package(prefix), *linked, *brought]
    contents = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc
    )
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"memoryd-{packages[0]['versionInfo']}",
        "documentNamespace": f"urn:memoryd:sbom:sha256:{contents}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: memoryd-tools/sbom.py"],
        },
        "packages": packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": "SPDXRef-memoryd",
            },
            *(
                {
                    "spdxElementId": "SPDXRef-memoryd",
                    "relationshipType": "STATIC_LINK" if is_static and package in linked else "DEPENDS_ON",
                    "relatedSpdxElement": package["SPDXID"],
                }
                for package in packages[1:]
            ),
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
