#!/usr/bin/env python3
"""Writes deploy/kubernetes from the chart in deploy/helm/memoryd, one file for each ci/*-values.yaml, and the
chart's copy of deploy/prometheus/alerts.yaml: a chart can't have files from outside of its folder.

usage: render_kubernetes.py [--check | --to FOLDER]

The first line of a file has a digest of what it was made from and of the rest of it. With --check,
which needs no helm, files whose digest does not fit are named: those that were forgotten when the
chart was changed, or changed by hand.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy/helm/memoryd"
MANIFESTS = ROOT / "deploy/kubernetes"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
CHART_ALERTS = CHART / "files/alerts.yaml"
_VALUES = "-values.yaml"
_FIRST = "# From deploy/helm/memoryd by tools/render_kubernetes.py, not to be changed here: "


def variants() -> dict[str, pathlib.Path]:
    """The values of each manifest, by its name."""
    return {path.name.removesuffix(_VALUES): path
            for path in sorted((CHART / "ci").glob(f"*{_VALUES}"))}


def digest(values: pathlib.Path, text: str) -> str:
    sources = [CHART / "Chart.yaml", CHART / "values.yaml", values,
               *sorted((CHART / "templates").glob("*.*"))]
    whole = hashlib.sha256(text.encode())
    for source in sources:
        whole.update(hashlib.sha256(source.read_bytes()).digest())
    return whole.hexdigest()[:16]


def rendered(name: str, values: pathlib.Path) -> str:
    helm = subprocess.run([ROOT / "tools/deploy_tools.sh", "helm"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()
    release = "agent" if name.startswith("sidecar") else "memoryd"
    documents = subprocess.run([helm, "template", release, CHART, "--values", values, "--skip-tests"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
    # Helm manages none of it here.
    documents = re.sub(r"^(# Source: .*| *app.kubernetes.io/managed-by: .*)\n", "", documents,
                       flags=re.MULTILINE)
    # What the values say of themselves, first.
    about = re.match(r"(#.*\n)*", values.read_text(encoding="utf-8"))
    text = (about[0] if about else "") + documents
    return f"{_FIRST}{digest(values, text)}\n{text}"


def fits(name: str, values: pathlib.Path) -> bool:
    path = MANIFESTS / f"{name}.yaml"
    if not path.exists():
        return False
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    return first == f"{_FIRST}{digest(values, text)}"


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        wrong = [name for name, values in variants().items() if not fits(name, values)]
        if CHART_ALERTS.read_bytes() != ALERTS.read_bytes():
            wrong.append(str(CHART_ALERTS.relative_to(ROOT)))
        extra = {path.stem for path in MANIFESTS.glob("*.yaml")} - set(variants())
        if wrong or extra:
            sys.exit("deploy/kubernetes and the chart are not what they are made from, run "
                     "tools/render_kubernetes.py: " + ", ".join(sorted({*wrong, *extra})))
        return
    if arguments and (len(arguments) != 2 or arguments[0] != "--to"):
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[1]) if arguments else MANIFESTS
    if not arguments:
        CHART_ALERTS.write_bytes(ALERTS.read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in variants().items():
        (folder / f"{name}.yaml").write_text(rendered(name, values), encoding="utf-8")


if __name__ == "__main__":
    main()
