"""The chart: every mode renders, is valid for every Kubernetes meant, and is what an operator may want."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from deploy.oci_registry import OciRegistry
from support.paths import BINARY, REPOSITORY, server_environment
from support.postgres import Cluster, run_sql
from support.server import Server

import memoryd

sys.path.insert(0, str(REPOSITORY / "tools"))

import render_kubernetes

CHART = REPOSITORY / "deploy/helm/memoryd"
VARIANTS = render_kubernetes.variants()
# From the first with native sidecars on by default.
KUBERNETES = [f"1.{minor}" for minor in range(29, 36)]
VALIDATOR = REPOSITORY / "build/deploy-venv/bin/kubernetes-validate"
# A cluster that has Prometheus Operator.
OPERATOR = ("--api-versions", "monitoring.coreos.com/v1/ServiceMonitor",
            "--api-versions", "monitoring.coreos.com/v1/PrometheusRule")
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
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def sets(*values: str) -> list[str]:
    return [argument for value in values for argument in ("--set", value)]


def plain(*values: str, more: tuple = ()) -> list[dict]:
    """What a release makes that has these values alone."""
    done = template(*sets(*values), *more)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def only(manifests: list[dict], kind: str) -> dict:
    (found,) = [d for d in manifests if d["kind"] == kind]
    return found


def pod_of(manifests: list[dict]) -> dict:
    return only(manifests, "Deployment")["spec"]["template"]["spec"]


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
        "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "memory"},
                     {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "extraVolumes": [{"name": "zones", "configMap": {"name": "zones", "defaultMode": 0o440}}],
        "extraVolumeMounts": [{"name": "zones", "mountPath": "/zones", "readOnly": True}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}],
        "store": {"postgresql": {"urlSecret": {"name": "cluster-app"}}},
        "networkPolicy": {"egress": [{"ports": [{"port": 5432}]}],
                          "ingress": [{"ports": [{"port": 8080}]}]},
    }))
    files = []
    for name, values in VARIANTS.items():
        for kind, extra in (("plain", ()), ("more", ("--values", more, *OPERATOR))):
            done = template("--values", values, *extra)
            assert done.returncode == 0, done.stderr
            # Kubernetes' schemas have none of Prometheus Operator's.
            known = [d for d in documents(done.stdout) if not d["apiVersion"].startswith("monitoring.")]
            files.append(folder / f"{name}-{kind}.yaml")
            files[-1].write_text(yaml.safe_dump_all(known, sort_keys=False), encoding="utf-8")
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


def test_no_values_make_a_server_over_a_volume_for_its_own_namespace():
    manifests = plain()
    assert sorted(d["kind"] for d in manifests) == [
        "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "Pod", "Pod", "Service"]
    assert only(manifests, "Deployment")["spec"]["replicas"] == 1
    pod = pod_of(manifests)
    assert "initContainers" not in pod and [c["name"] for c in pod["containers"]] == ["memoryd"]
    memoryd = memoryd_of(pod)
    settings = settings_of(memoryd)
    assert settings["MEMORYD_LISTEN"] == "0.0.0.0:50051"
    assert settings["MEMORYD_ALLOW_PLAINTEXT"] == "true"
    assert settings["MEMORYD_STORE"] == "sqlite:/var/lib/memoryd/memoryd.db"
    (volume,) = pod["volumes"]
    claim = only(manifests, "PersistentVolumeClaim")["metadata"]["name"]
    assert volume == {"name": "memory", "persistentVolumeClaim": {"claimName": claim}}
    policy = only(manifests, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    callers = {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}
    assert callers["grpc"] == [{"podSelector": {}}]
    assert callers["metrics"] == [{"namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    (port,) = only(manifests, "Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (50051, "grpc")
    # Its own test reaches it without a file.
    health = next(d for d in manifests if d["metadata"]["name"] == "memory-test-health")["spec"]
    assert health["containers"][0]["args"] == ["health", "--target=memory:50051", "--timeout=5"]
    assert "volumes" not in health


def test_memoryd_takes_what_no_values_make(tmp_path):
    settings = settings_of(memoryd_of(pod_of(plain())))
    settings["MEMORYD_STORE"] = f"sqlite:{tmp_path}/memoryd.db"
    checked = subprocess.run([BINARY, "--check-config"], env=server_environment(**settings),
                             capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("values, is_sidecar", [
    ([], False),
    (["agent.image=a"], True),
    (["mode=sidecar", "agent.image=a"], True),
    (["mode=server"], False),
    (["mode=server", "agent.image=a"], False),
    (["mode=", "agent.image=a", "replicas=2", "store.kind=postgresql", "settingsSecret=s"], True),
])
def test_a_release_that_sets_an_agent_and_no_mode_is_a_sidecar(values, is_sidecar):
    pod = pod_of(plain(*values))
    assert ("initContainers" in pod) == is_sidecar
    settings = settings_of(memoryd_of(pod))
    assert ("MEMORYD_ALLOW_PLAINTEXT" in settings) != is_sidecar
    assert settings["MEMORYD_LISTEN"].startswith("127.0.0.1:") == is_sidecar


def test_with_tls_there_is_no_plaintext():
    settings = settings_of(memoryd_of(pod_of(plain("tls.secret=t", "credentialsSecret=c"))))
    assert "MEMORYD_ALLOW_PLAINTEXT" not in settings
    assert settings["MEMORYD_TLS_CERT"].endswith("/tls.crt")


# Values that came after the chart's first.
NEW = ("extraEnv", "extraVolumes", "extraVolumeMounts", "topologySpreadConstraints", "serviceMonitor",
       "prometheusRule")


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("mode", ["", "sidecar", "server"])
def test_an_upgrade_that_reuses_values_of_the_first_chart_goes_through(tmp_path, name, mode):
    """`helm upgrade --reuse-values` takes the defaults of the release's chart, not of the new one."""
    chart = tmp_path / "memoryd"
    shutil.copytree(CHART, chart)
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    own = yaml.safe_load(VARIANTS[name].read_text(encoding="utf-8")) or {}
    values = {key: value for key, value in values.items() if key not in NEW} | {"mode": "sidecar"}
    del values["store"]["postgresql"]
    if name == "server-sqlite":  # There was none.
        own = {"mode": "server", "settings": {"allow_plaintext": True}}
    elif mode:
        own |= {"mode": "server" if name == "server" else "sidecar"}
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump(own))
    done = helm("template", "memory", chart, "--values", given)
    assert done.returncode == 0, done.stderr
    assert ("initContainers" in pod_of(documents(done.stdout))) == name.startswith("sidecar")


def environment_of(*values: str) -> dict[str, dict]:
    """MEMORYD_STORE and PGPASSWORD as the containers have them, the migration's too."""
    manifests = plain("store.kind=postgresql", "migration.enabled=true", *values)
    found = [{entry["name"]: entry for entry in container["env"]
              if entry["name"] in ("MEMORYD_STORE", "PGPASSWORD")}
             for spec in pod_specs(manifests) for container in spec["containers"] if "env" in container]
    assert len(found) == 3 and found[0] == found[1] == found[2]
    return found[0]


def secret(name: str, secret_name: str, key: str) -> dict:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": key}}}


def test_the_url_of_postgresql_comes_from_a_secret_that_is_there():
    assert environment_of("store.postgresql.urlSecret.name=cluster-app") == {
        "MEMORYD_STORE": secret("MEMORYD_STORE", "cluster-app", "uri")}
    assert environment_of("store.postgresql.urlSecret.name=a", "store.postgresql.urlSecret.key=URL") == {
        "MEMORYD_STORE": secret("MEMORYD_STORE", "a", "URL")}
    url = "postgresql://memory@db.example/memory?sslmode=verify-full"
    assert environment_of(f"store.postgresql.url={url}",
                          "store.postgresql.passwordSecret.name=db") == {
        "MEMORYD_STORE": {"name": "MEMORYD_STORE", "value": url},
        "PGPASSWORD": secret("PGPASSWORD", "db", "password")}
    # The URL is the file's, and the password not.
    assert environment_of("settingsSecret=s", "store.postgresql.passwordSecret.name=db",
                          "store.postgresql.passwordSecret.key=pw") == {
        "PGPASSWORD": secret("PGPASSWORD", "db", "pw")}


def test_a_password_of_a_secret_opens_postgresql(tmp_path):
    with Cluster() as cluster:
        run_sql(cluster.url, "CREATE ROLE memory LOGIN PASSWORD 'not-the-Passw0rd'")
        run_sql(cluster.url, "CREATE DATABASE memory OWNER memory")
        hba = pathlib.Path(run_sql(cluster.url, "SHOW hba_file").strip())
        hba.write_text("host all memory 127.0.0.1/32 scram-sha-256\n")
        run_sql(cluster.url, "SELECT pg_reload_conf()")
        url = f"postgresql://memory@127.0.0.1:{cluster.port}/memory"
        settings = settings_of(memoryd_of(pod_of(plain(
            "store.kind=postgresql", f"store.postgresql.url={url}",
            "store.postgresql.passwordSecret.name=db"))))
        with Server(settings["MEMORYD_STORE"], environment={"PGPASSWORD": "not-the-Passw0rd"}) as server:
            with memoryd.Client(server.target) as client:
                client.put("s1", [memoryd.message("user", "Hello!")])
            assert "Passw0rd" not in server.output()


def test_more_variables_and_volumes_go_to_memoryd_alone(everything):
    for file in everything:
        if not file.stem.endswith("-more"):
            continue
        manifests = documents(file.read_text(encoding="utf-8"))
        for spec in pod_specs(manifests):
            mounted = {volume["name"] for volume in spec.get("volumes", [])}
            for container in spec.get("initContainers", []) + spec["containers"]:
                assert {mount["name"] for mount in container.get("volumeMounts", [])} <= mounted
                if container["name"] in ("memoryd", "migrate", "settings"):
                    assert {"OTEL_SERVICE_NAME", "POD"} <= {e["name"] for e in container["env"]}
                    assert "/zones" in {m["mountPath"] for m in container["volumeMounts"]}
                elif container["name"] == "agent":
                    assert "zones" not in json.dumps(container)


def test_constraints_of_ones_own_replace_the_chart_s_two():
    values = ["topologySpreadConstraints[0].topologyKey=rack", "topologySpreadConstraints[0].maxSkew=2",
              "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
              "topologySpreadConstraints[1].topologyKey=zone", "topologySpreadConstraints[1].maxSkew=1",
              "topologySpreadConstraints[1].whenUnsatisfiable=DoNotSchedule",
              "topologySpreadConstraints[1].labelSelector.matchLabels.a=b"]
    manifests = plain(*values)
    rack, zone = pod_of(manifests)["topologySpreadConstraints"]
    labels = only(manifests, "Deployment")["spec"]["selector"]["matchLabels"]
    assert rack == {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": labels}}
    assert zone["labelSelector"] == {"matchLabels": {"a": "b"}}
    assert "topologySpreadConstraints" not in pod_of(plain())


@pytest.mark.parametrize("values, versions, monitor, rule", [
    ([], (), False, False),
    ([], OPERATOR, True, True),
    ([], OPERATOR[:2], True, False),
    (["serviceMonitor.enabled=false"], OPERATOR, False, True),
    (["prometheusRule.enabled=false"], OPERATOR, True, False),
    (["serviceMonitor.enabled=true", "prometheusRule.enabled=true"], (), True, True),
])
def test_prometheus_operator_s_resources_are_made_where_they_are_known(values, versions, monitor, rule):
    kinds = [d["kind"] for d in plain(*values, more=versions)]
    assert ("ServiceMonitor" in kinds, "PrometheusRule" in kinds) == (monitor, rule)
    assert kinds.count("Service") == 1 + monitor


@pytest.mark.parametrize("name", VARIANTS)
def test_a_service_monitor_finds_the_metrics_of_the_pods(name):
    manifests = rendered(name, "--set", "serviceMonitor.labels.release=prometheus",
                         "--set", "serviceMonitor.interval=10s", *OPERATOR)
    monitor = only(manifests, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"]
    (service,) = [d for d in manifests if d["kind"] == "Service"
                  and wanted.items() <= d["metadata"]["labels"].items()]
    pod = only(manifests, "Deployment")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = service["spec"]["ports"]
    assert endpoint == {"port": port["name"], "interval": "10s"}
    assert {"name": port["targetPort"], "containerPort": 9464} in memoryd_of(pod["spec"])["ports"]
    # The alerts look for this job.
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "memoryd"
    job = only(manifests, "Job")["spec"]["template"] if name == "server" else None
    assert job is None or service["spec"]["selector"].items() - job["metadata"]["labels"].items()


def test_the_rules_are_those_of_the_repository():
    rule = only(plain("prometheusRule.enabled=true", "prometheusRule.labels.release=p"), "PrometheusRule")
    alerts = REPOSITORY / "deploy/prometheus/alerts.yaml"
    assert rule["spec"] == yaml.safe_load(alerts.read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"]["release"] == "p"
    assert (CHART / "files/alerts.yaml").read_bytes() == alerts.read_bytes()


def test_the_image_is_the_one_that_is_built_here():
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    assert memoryd_of(pod_of(plain()))["image"] == f"memoryd:{version}"
    named = subprocess.run([REPOSITORY / "tools/image.sh", "--name"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.strip()
    assert named == f"memoryd:{version}"


def test_the_package_is_the_chart(tmp_path):
    done = helm("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("memoryd-*.tgz")
    packed = helm("template", "memory", package, *sets("prometheusRule.enabled=true"))
    assert packed.returncode == 0, packed.stderr
    assert documents(packed.stdout) == plain("prometheusRule.enabled=true")


def test_a_registry_takes_and_gives_the_package(tmp_path):
    assert helm("package", CHART, "--destination", tmp_path).returncode == 0
    (package,) = tmp_path.glob("memoryd-*.tgz")
    with OciRegistry() as registry:
        charts = f"oci://{registry.address}/charts"
        pushed = helm("push", package, charts, "--plain-http")
        assert pushed.returncode == 0, pushed.stderr
        version = package.stem.removeprefix("memoryd-")
        assert ("charts/memoryd", version) in registry.manifests
        given = helm("template", "memory", f"{charts}/memoryd", "--version", version, "--plain-http")
    assert given.returncode == 0, given.stderr
    assert documents(given.stdout) == plain()


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
    file.chmod(0o440)  # As in the pod.
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
    # Idle 45 MiB, and 64 MiB that may wait: docs/CAPACITY.md, Memory.
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


@pytest.mark.parametrize("mode, address", [("server", "0.0.0.0:50080"), ("sidecar", "127.0.0.1:50080")])
def test_http_has_a_port_of_its_own_where_it_is_asked_for(mode, address):
    values = ["http.enabled=true", "credentialsSecret=c",
              *(["agent.image=a"] if mode == "sidecar" else [])]
    for enabled in (True, False):
        made = plain(*(values if enabled else values[1:]))
        container = memoryd_of(pod_of(made))
        assert settings_of(container).get("MEMORYD_HTTP_LISTEN") == (address if enabled else None)
        on_service = enabled and mode == "server"
        assert ("http" in [port["name"] for port in container["ports"]]) == on_service
        services = [d for d in made if d["kind"] == "Service"]
        assert len(services) == (mode == "server")
        for service in services:
            ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
            assert ports.get("http") == (50080 if on_service else None)
        allowed = [port["port"] for rule in only(made, "NetworkPolicy")["spec"]["ingress"]
                   for port in rule["ports"]]
        assert ("http" in allowed) == on_service


def test_a_file_has_one_server_at_a_time():
    assert of_kind("sidecar-sqlite", "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_values_win_over_what_the_chart_sets():
    memoryd = memoryd_of(of_kind("sidecar-sqlite", "Deployment", "--set", "settings.cache_mib=2000000",
                                 "--set", "settings.reflection=off", "--set",
                                 "image.digest=sha256:" + "0" * 64)["spec"]["template"]["spec"])
    assert settings_of(memoryd)["MEMORYD_CACHE_MIB"] == "2000000"
    assert settings_of(memoryd)["MEMORYD_REFLECTION"] == "off"
    assert memoryd["image"] == "memoryd@sha256:" + "0" * 64


@pytest.mark.parametrize("name, values, words", [
    ("sidecar-sqlite", ["replicas=2"], "replicas is 2, but a SQLite file has one server"),
    ("sidecar-sqlite", ["migration.enabled=true"], "migration.enabled is only of PostgreSQL"),
    ("sidecar-sqlite", ["mode=sidecar", "agent.image="], "agent.image is missing"),
    ("sidecar-sqlite", ["agent.image="], "agent.image is missing"),
    ("sidecar-sqlite", ["tls.secret=x"], "tls.secret is set, but"),
    ("sidecar-sqlite", ["settings.drain_seconds=3"],
     "settings.drain_seconds can't be set here: it is set by the value drainSeconds"),
    ("sidecar-sqlite", ["settings.models=x"], "settings.models can't be set here"),
    ("sidecar-postgresql", ["settingsSecret="], "the URL of PostgreSQL is missing"),
    ("server", ["settingsSecret="], "the URL of PostgreSQL is missing"),
    ("server", ["tls.secret=", "settings.allow_plaintext=false"], "tls.secret is missing"),
    ("server", ["tls.secret=", "tls.clientCertificates=true"], "tls.secret is missing"),
    ("server", ["store.postgresql.url=postgresql://a:b@c/d"], "store.postgresql.url has a password"),
    ("server", ["store.postgresql.url=postgresql://a@c/d?password=b"], "store.postgresql.url has a password"),
    ("server", ["store.postgresql.url=postgresql://a@c/d", "store.postgresql.urlSecret.name=x"],
     "are both set"),
    ("server-sqlite", ["image.repository="], "image.repository is missing"),
    ("server-sqlite", ["image=null"], "image.repository is missing"),
    ("server-sqlite", ["replicas=null"], "replicas is missing"),
    ("server-sqlite", ["resources=null"], "resources is missing"),
    ("server-sqlite", ["store.kind="], "store.kind is missing"),
    ("server-sqlite", ["store=null"], "store.kind is missing"),
])
def test_a_missing_value_is_named_in_words(name, values, words):
    done = template("--values", VARIANTS[name], *sets(*values))
    assert done.returncode != 0
    assert "these values can't be used" in done.stderr and words in done.stderr, done.stderr
    assert "schema" not in done.stderr


def test_http_for_everybody_is_refused():
    done = template(*sets("http.enabled=true"))
    assert done.returncode != 0 and "credentialsSecret is missing" in done.stderr


def test_all_that_is_missing_is_named_at_once():
    done = template(*sets("mode=sidecar", "store.kind=postgresql", "image.repository="))
    assert done.stderr.count("\n- ") == 3, done.stderr


@pytest.mark.parametrize("name, values, word", [
    ("sidecar-sqlite", ["mode=both"], "mode"),
    ("sidecar-sqlite", ["store.sqlite.size=much"], "size"),
    ("sidecar-sqlite", ["replica=1"], "replica"),
    ("sidecar-sqlite", ["store.kind=mysql"], "kind"),
    ("server", ["image.digest=sha256:1"], "digest"),
    ("server", ["store.postgresql.url=db.example"], "url"),
    ("server", ["serviceMonitor.enabled=yes"], "enabled"),
])
def test_values_that_cannot_be_meant_are_refused(name, values, word):
    done = template("--values", VARIANTS[name], *sets(*values))
    assert done.returncode != 0
    assert word in done.stderr


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """What `helm install` says at its end with these values."""
    # helm shows notes only where it reaches a cluster: here they are the text of a document.
    chart = tmp_path_factory.mktemp("notes") / "memoryd"
    shutil.copytree(CHART, chart)
    file = (chart / "templates/NOTES.txt").rename(chart / "templates/notes.yaml")
    file.write_text('{{- define "notes" }}' + file.read_text(encoding="utf-8")
                    + '{{ end }}{{ toYaml (dict "notes" (include "notes" .)) }}', encoding="utf-8")

    def say(*arguments: object) -> str:
        done = helm("template", "memory", chart, *arguments, "--show-only", "templates/notes.yaml")
        assert done.returncode == 0, done.stderr
        return yaml.safe_load(done.stdout)["notes"]

    return say


PLAIN, OPEN = "there is no TLS", "there are no credentials"
REPLICA, NAMESPACE = "There is one replica", "Every pod of namespace default"
CLUSTER = "Every pod of the cluster can"
ISSUES = {PLAIN: "--set tls.secret=", OPEN: "--set credentialsSecret=",
          REPLICA: "--set store.postgresql.urlSecret.name=", NAMESPACE: "--set 'networkPolicy.apiFrom[0]",
          CLUSTER: "--set "}


@pytest.mark.parametrize("values, first, found", [
    ([], "memory.default:50051, in plaintext", {PLAIN, OPEN, REPLICA, NAMESPACE}),
    (["tls.secret=t"], "memory.default:50051, with TLS", {OPEN, REPLICA, NAMESPACE}),
    (["tls.secret=t", "credentialsSecret=c"], "with TLS", {REPLICA, NAMESPACE}),
    (["networkPolicy.enabled=false"], "in plaintext", {PLAIN, OPEN, REPLICA, CLUSTER}),
    (["networkPolicy.apiFrom=null"], "in plaintext", {PLAIN, OPEN, REPLICA, CLUSTER}),
    (["store.kind=postgresql", "settingsSecret=s", "tls.secret=t", "credentialsSecret=c"], "with TLS",
     {NAMESPACE}),
    (["networkPolicy.apiFrom[0].podSelector.matchLabels.app=a"], "in plaintext", {PLAIN, OPEN, REPLICA}),
    (["agent.image=a"], "127.0.0.1:50051", {REPLICA}),
    (["agent.image=a", "store.kind=postgresql", "settingsSecret=s"], "127.0.0.1:50051", set()),
])
def test_notes_say_what_is_open_and_how_to_close_it(notes, values, first, found):
    text = notes(*sets(*values))
    assert first in text.splitlines()[0]
    assert {issue for issue in ISSUES if issue in text} == found, text
    assert all(ISSUES[issue] in text for issue in found), text
    assert ("Open, and how to close it" in text) == bool(found)
    assert ("the volume memory-memory" in text) == (REPLICA in found)


def test_notes_show_a_first_memory_where_no_token_is_wanted(notes):
    for values in ([], ["agent.image=a"]):
        assert 'exec deployment/memory -c memoryd -- memoryd put s1 "' in notes(*sets(*values))
    for values in (["tls.secret=t"], ["credentialsSecret=c"]):
        assert "exec" not in notes(*sets(*values))
    assert "MEMORYD_TARGET=memory.default:50051" in notes()
    assert "MEMORYD_TARGET" not in notes(*sets("agent.image=a"))


def test_notes_tell_of_certificates_and_of_an_image_that_nobody_publishes(notes):
    text = notes(*sets("tls.secret=t", "tls.clientCertificates=true"))
    assert "Every holder of a certificate of the authority has all rights" in text
    assert "memoryd:0.1.0 is in no public registry" in text
    assert "no public registry" not in notes(*sets("image.repository=registry.example/memoryd"))
