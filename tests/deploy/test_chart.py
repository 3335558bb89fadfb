"""The chart: every mode renders, is valid for every Kubernetes meant, and is what an operator may want."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from support.paths import BINARY, REPOSITORY, server_environment

sys.path.insert(0, str(REPOSITORY / "tools"))

import render_kubernetes  # noqa: E402  (found through the path set above)

CHART = REPOSITORY / "deploy/helm/memoryd"
VARIANTS = render_kubernetes.variants()
# From the first with native sidecars on by default.
KUBERNETES = [f"1.{minor}" for minor in range(29, 36)]
VALIDATOR = REPOSITORY / "build/deploy-venv/bin/kubernetes-validate"
# What kube-score finds critical and we do on purpose.
ACCEPTED = {
    # A limit of processor time makes the agent wait while processors are idle; requests are set.
    "--ignore-container-cpu-limit",
    # Versions don't change under their tag, and a node restarts what it has while a registry is away.
    "--ignore-test=container-image-pull-policy",
}


def tool(name: str) -> str:
    done = subprocess.run([REPOSITORY / "tools/deploy_tools.sh", name], stdout=subprocess.PIPE,
                          text=True, check=True)
    return done.stdout.strip()


def helm(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([tool("helm"), *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def template(*arguments: object) -> subprocess.CompletedProcess:
    return helm("template", "memory", CHART, *arguments)


def documents(text: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(name: str, *arguments: object) -> list[dict]:
    done = template("--values", VARIANTS[name], *arguments)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def of_kind(name: str, kind: str, *arguments: object) -> dict:
    (found,) = [d for d in rendered(name, *arguments) if d["kind"] == kind]
    return found


def pod_specs(manifests: list[dict]) -> list[dict]:
    specs = [d["spec"] for d in manifests if d["kind"] in ("Deployment", "Job", "Pod")]
    return [spec.get("template", {}).get("spec", spec) for spec in specs]


def memoryd_of(spec: dict) -> dict:
    (found,) = [c for c in spec.get("initContainers", []) + spec["containers"]
                if c["name"] == "memoryd"]
    return found


def settings_of(container: dict) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"]}


def test_lint_is_silent():
    for values in VARIANTS.values():
        done = helm("lint", "--strict", CHART, "--values", values)
        assert done.returncode == 0, done.stdout + done.stderr


def test_versions_are_those_of_memoryd():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = re.search(r"project\(memoryd VERSION (\S+)",
                        (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == project[1]


def test_the_manifests_are_those_of_the_chart(tmp_path):
    subprocess.run([sys.executable, REPOSITORY / "tools/render_kubernetes.py", "--to", tmp_path],
                   check=True)
    for path in render_kubernetes.MANIFESTS.glob("*.yaml"):
        assert path.read_text(encoding="utf-8") == \
            (tmp_path / path.name).read_text(encoding="utf-8"), path.name
    for name, values in VARIANTS.items():
        assert render_kubernetes.fits(name, values)


def validate(version: str, *files: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([VALIDATOR, "--strict", "-k", version, *files], capture_output=True,
                          text=True, check=False)


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> list[pathlib.Path]:
    """Every mode with its tests, and with all that can be switched on."""
    folder = tmp_path_factory.mktemp("rendered")
    more = folder / "more.yaml"
    more.write_text(yaml.safe_dump({
        "imagePullSecrets": [{"name": "registry"}],
        "secretFolders": ["models"],
        "podAnnotations": {"a/b": "c"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "networkPolicy": {"egress": [{"ports": [{"port": 5432}]}],
                          "ingress": [{"ports": [{"port": 8080}]}]},
    }))
    files = []
    for name, values in VARIANTS.items():
        for extra in ((), ("--values", more)):
            done = template("--values", values, *extra)
            assert done.returncode == 0, done.stderr
            files.append(folder / f"{name}-{len(extra)}.yaml")
            files[-1].write_text(done.stdout, encoding="utf-8")
    return files


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_mode_is_valid(version, everything):
    done = validate(version, *everything)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_key_is_found(tmp_path, everything):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(everything[0].read_text(encoding="utf-8").replace("periodSeconds", "periodSecond"))
    assert validate(KUBERNETES[-1], wrong).returncode != 0


@pytest.mark.parametrize("name", VARIANTS)
def test_kube_score_finds_nothing_critical(name, everything):
    command = [tool("kube-score"), "score", "--output-format=json", f"--kubernetes-version=v{KUBERNETES[-1]}",
               *sorted(ACCEPTED), render_kubernetes.MANIFESTS / f"{name}.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    critical = [(found["object_name"], check["check"]["id"], comment)
                for found in json.loads(done.stdout) for check in found["checks"]
                if not check["skipped"] and check["grade"] == 1
                for comment in check["comments"] or [""]]
    assert critical == []


@pytest.mark.parametrize("name", VARIANTS)
def test_pods_meet_the_restricted_standard(name):
    specs = pod_specs(rendered(name))
    assert specs
    for spec in specs:
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not any(key in spec for key in ("hostNetwork", "hostPID", "hostIPC"))
        for container in spec.get("initContainers", []) + spec["containers"]:
            security = container["securityContext"]
            assert security["runAsNonRoot"] and security["runAsUser"] > 0
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", ["sidecar-sqlite", "sidecar-postgresql"])
def test_a_sidecar_s_api_is_on_loopback(name):
    spec = of_kind(name, "Deployment")["spec"]["template"]["spec"]
    (sidecar,) = spec["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    settings = settings_of(sidecar)
    assert settings["MEMORYD_LISTEN"].startswith("127.0.0.1:")
    assert "MEMORYD_ALLOW_PLAINTEXT" not in settings
    assert not [d for d in rendered(name) if d["kind"] == "Service"]
    # The agent's own time, then memoryd's.
    assert spec["terminationGracePeriodSeconds"] > int(settings["MEMORYD_DRAIN_SECONDS"]) + 10


@pytest.mark.parametrize("name", VARIANTS)
def test_probes_ask_the_metrics_port_and_health_has_none(name):
    memoryd = memoryd_of(of_kind(name, "Deployment")["spec"]["template"]["spec"])
    settings = settings_of(memoryd)
    assert "MEMORYD_HEALTH_LISTEN" not in settings
    ports = {port["name"]: port["containerPort"] for port in memoryd["ports"]}
    assert ports["metrics"] == int(settings["MEMORYD_METRICS_LISTEN"].rsplit(":", 1)[1])
    assert ports.keys() <= {"grpc", "metrics"}
    for probe in ("startupProbe", "readinessProbe"):
        assert memoryd[probe]["httpGet"] == {"port": "metrics", "path": "/readyz"}
    assert memoryd["livenessProbe"]["httpGet"] == {"port": "metrics", "path": "/healthz"}


@pytest.mark.parametrize("name", VARIANTS)
def test_memoryd_takes_the_settings_and_they_fit_the_memory(name, tmp_path):
    """Those of the chart are settings of this binary; nothing secret is among them."""
    memoryd = memoryd_of(of_kind(name, "Deployment")["spec"]["template"]["spec"])
    settings = settings_of(memoryd)
    file = tmp_path / "memoryd.yaml"
    file.write_text("store: postgresql://user:secret@postgres/memory\n")
    if "MEMORYD_CONFIG" in settings:
        settings["MEMORYD_CONFIG"] = str(file)
        assert "MEMORYD_STORE" not in settings
    printed = subprocess.run([BINARY, "--print-config"], env=server_environment(**settings),
                             capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    told = yaml.safe_load(printed.stdout)
    if "MEMORYD_CONFIG" in settings:
        assert told["store"].startswith("postgresql://")
    else:
        assert told["store"] == "sqlite:/var/lib/memoryd/memoryd.db"
        assert {"name": "memory", "mountPath": "/var/lib/memoryd"} in memoryd["volumeMounts"]
    limit = int(memoryd["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert memoryd["resources"]["requests"]["memory"] == memoryd["resources"]["limits"]["memory"]
    # Idle 45 MiB, and 64 MiB that may wait: docs/OPERATIONS.md, Memory.
    assert told["cache_mib"] + told["index_mib"] + told["vector_mib"] + 64 + 45 < 0.75 * limit


def test_secrets_are_files_that_others_cannot_read():
    for spec in pod_specs(rendered("server")):
        for container in spec.get("initContainers", []) + spec["containers"]:
            for entry in container.get("env", []):
                assert "secretKeyRef" not in json.dumps(entry)
        for volume in spec.get("volumes", []):
            assert volume["secret"]["defaultMode"] == 0o440
    spec = of_kind("server", "Deployment")["spec"]["template"]["spec"]
    assert {volume["secret"]["secretName"] for volume in spec["volumes"]} == {
        "memoryd-settings", "memoryd-tls", "memoryd-credentials"}
    mounted = {mount["mountPath"] for mount in memoryd_of(spec)["volumeMounts"]}
    for name, value in settings_of(memoryd_of(spec)).items():
        if value.startswith("/run/secrets"):
            assert str(pathlib.Path(value).parent) in mounted, name


def test_a_server_is_spread_budgeted_and_migrated_first():
    deployment = of_kind("server", "Deployment")
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert {entry["topologyKey"] for entry in spread} == {
        "kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    budget = of_kind("server", "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"]["matchLabels"] == labels
    job = of_kind("server", "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]
    # Neither the Service nor the budget takes it for a server.
    assert labels.items() - job["spec"]["template"]["metadata"]["labels"].items()
    policies = {d["metadata"]["name"]: d["spec"] for d in rendered("server")
                if d["kind"] == "NetworkPolicy"}
    policy = policies["memory"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {
        "grpc", "metrics"}
    service = of_kind("server", "Service")["spec"]
    assert [port["name"] for port in service["ports"]] == ["grpc"]
    # Nobody calls the migration.
    assert policies["memory-migration"]["podSelector"]["matchLabels"].items() <= \
        job["spec"]["template"]["metadata"]["labels"].items()
    assert "ingress" not in policies["memory-migration"]


def test_a_file_has_one_server_at_a_time():
    assert of_kind("sidecar-sqlite", "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_values_win_over_what_the_chart_sets():
    memoryd = memoryd_of(of_kind("sidecar-sqlite", "Deployment", "--set", "settings.cache_mib=2000000",
                                 "--set", "settings.reflection=off", "--set",
                                 "image.digest=sha256:" + "0" * 64)["spec"]["template"]["spec"])
    assert settings_of(memoryd)["MEMORYD_CACHE_MIB"] == "2000000"
    assert settings_of(memoryd)["MEMORYD_REFLECTION"] == "off"
    assert memoryd["image"] == "memoryd@sha256:" + "0" * 64


@pytest.mark.parametrize("name, values, word", [
    ("sidecar-sqlite", ["replicas=2"], "replicas"),
    ("sidecar-sqlite", ["migration.enabled=true"], "migration"),
    ("sidecar-sqlite", ["agent.image="], "agent"),
    ("sidecar-sqlite", ["tls.secret=x"], "tls"),
    ("sidecar-sqlite", ["mode=both"], "mode"),
    ("sidecar-sqlite", ["store.sqlite.size=much"], "size"),
    ("sidecar-sqlite", ["settings.drain_seconds=3"], "drain_seconds"),
    ("sidecar-sqlite", ["replica=1"], "replica"),
    ("sidecar-postgresql", ["settingsSecret="], "settingsSecret"),
    ("server", ["tls.secret="], "tls"),
    ("server", ["image.digest=sha256:1"], "digest"),
])
def test_values_that_cannot_be_meant_are_refused(name, values, word):
    sets = [argument for value in values for argument in ("--set", value)]
    done = template("--values", VARIANTS[name], *sets)
    assert done.returncode != 0
    assert word in done.stderr


def test_notes_say_where_it_serves(tmp_path):
    # helm shows notes only where it reaches a cluster: here they are the text of a document.
    chart = tmp_path / "memoryd"
    shutil.copytree(CHART, chart)
    notes = (chart / "templates/NOTES.txt").rename(chart / "templates/notes.yaml")
    notes.write_text('{{- define "notes" }}' + notes.read_text(encoding="utf-8")
                     + '{{ end }}{{ toYaml (dict "notes" (include "notes" .)) }}', encoding="utf-8")
    for name, words in (("sidecar-sqlite", ("127.0.0.1:50051", "the volume memory-memory")),
                        ("server", ("memory.default:50051, with TLS",))):
        done = helm("template", "memory", chart, "--values", VARIANTS[name], "--show-only",
                    "templates/notes.yaml")
        assert done.returncode == 0, done.stderr
        text = yaml.safe_load(done.stdout)["notes"]
        assert all(word in text for word in words), text
