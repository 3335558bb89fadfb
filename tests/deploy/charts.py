#!/usr/bin/env python3
"""Draws panels of the dashboard from a Prometheus that scraped a server at work, for the documents.

usage: charts.py FILE.svg     needs build/deploy-venv (tools/deploy_env.sh)

Agents talk to the server for a minute and a half; in the middle the models hang for half a minute.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from deploy.prometheus import VARIABLES, Prometheus, busy_server, dashboard_queries
from support.paths import REPOSITORY

PANELS = ("Calls", "Calls, p99", "Jobs, models and workers", "Tokens a second")
PART_SECONDS = 30.0


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, busy_server("sqlite") as (server, models), \
            Prometheus(pathlib.Path(folder), server.metrics) as prometheus:
        prometheus.wait_for('sum(rate(memoryd_rpc_total{method="Put"}[10s])) > 0')
        begin = time.time()
        passing = threading.Event()
        passing.wait(PART_SECONDS)
        with models.hanging():
            hung = [time.time() - begin]
            passing.wait(PART_SECONDS)
            hung.append(time.time() - begin)
        passing.wait(PART_SECONDS)
        panels: dict[str, dict] = {}
        for panel, query, legend in dashboard_queries(VARIABLES):
            # Both rows that say what comes and what waits have one of this name: the first.
            if panel["title"] not in PANELS or panels.get(panel["title"], panel).get("id") != panel["id"]:
                continue
            drawn = panels.setdefault(panel["title"], {
                "id": panel["id"], "unit": panel["fieldConfig"]["defaults"]["unit"], "series": []})
            found = prometheus.get("query_range", query=query, start=begin, end=time.time(), step=1)
            for series in found["result"]:
                name = legend
                for label, value in series["metric"].items():
                    name = name.replace("{{" + label + "}}", value)
                drawn["series"].append({"name": name, "values": [
                    (at - begin, float(value)) for at, value in series["values"]]})
    subprocess.run([REPOSITORY / "build/deploy-venv/bin/python",
                    pathlib.Path(__file__).with_name("draw_charts.py"), sys.argv[1]],
                   input=json.dumps({"panels": panels, "hung": hung}), text=True, check=True)


if __name__ == "__main__":
    main()
