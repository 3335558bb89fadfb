"""The dashboard and the alerts, held against a server that works and a Prometheus that scrapes it."""

import json
import pathlib
import re
import subprocess
import tempfile

import pytest
import yaml

from deploy.prometheus import (
    ALERTS,
    DASHBOARD,
    VARIABLES,
    Prometheus,
    busy_server,
    dashboard_queries,
    metrics_in,
)
from support.paths import REPOSITORY
from support.stores import STORES

QUERIES = [(panel["title"], query) for panel, query, _ in dashboard_queries(VARIABLES)]
RULES = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
# Enough scrapes for a rate, and a model's call that was tried again.
WORKED = 'sum(increase(memoryd_model_retries_total[10m])) > 0 and ' \
    'sum(rate(memoryd_worker_call_seconds_count[10s])) > 0'


@pytest.fixture(scope="module", params=STORES)
def prometheus(request):
    with tempfile.TemporaryDirectory() as folder, busy_server(request.param) as (server, models), \
            Prometheus(pathlib.Path(folder), server.metrics) as running:
        running.wait_for('sum(rate(memoryd_rpc_total{method="Put"}[10s])) > 0')
        models.lie("status", 20, code=503)
        running.wait_for(WORKED)
        yield running


@pytest.mark.parametrize("title, query", QUERIES, ids=[f"{t}-{n}" for n, (t, _) in enumerate(QUERIES)])
def test_a_query_of_the_dashboard_has_data(prometheus, title, query):
    if "up{" in query:
        assert prometheus.samples(query) == [1]
    else:
        assert prometheus.samples(query), title


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_of_metrics_that_are_there_and_is_silent(prometheus, rule):
    for name in metrics_in(rule["expr"]):
        assert prometheus.samples(f'count({{__name__=~"{name}(_count)?"}})'), name
    if rule["alert"] != "MemorydModelFails":  # The model was told to.
        assert not prometheus.samples(rule["expr"]), rule["alert"]


def test_the_rules_are_loaded(prometheus):
    groups = prometheus.get("rules")["groups"]
    assert [rule["name"] for rule in groups[0]["rules"]] == [rule["alert"] for rule in RULES]
    assert {rule["health"] for rule in groups[0]["rules"]} <= {"ok", "unknown"}


def test_every_alert_names_a_runbook_that_is_there():
    for rule in RULES:
        document, _, anchor = rule["annotations"]["runbook"].partition("#")
        text = (REPOSITORY / document).read_text(encoding="utf-8")
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                   for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        assert anchor in anchors, rule["alert"]


def test_every_alert_fires_when_it_should():
    cases = REPOSITORY / "tests/deploy/alerts_test.yaml"
    done = subprocess.run(["promtool", "test", "rules", cases], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = {case["alertname"]
              for test in yaml.safe_load(cases.read_text(encoding="utf-8"))["tests"]
              for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert tested == {rule["alert"] for rule in RULES}


def test_promtool_takes_the_rules():
    done = subprocess.run(["promtool", "check", "rules", "--lint-fatal", ALERTS],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_asks_for_nothing_twice_and_has_its_places():
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len(set(QUERIES)) == len(QUERIES)
