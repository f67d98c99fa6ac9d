"""The files of deploy/: containers without rights, and names that fit together."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.requirements import Requirement

from windlass.limits import SERVICE_DRAIN_S
from windlass_server.guard import Metrics

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CLOSE_S: Final = 20
"""How long a process may take to close after its drain."""
OBJECTS: Final[list[dict[str, Any]]] = [
    *yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
]
PODS: Final = {
    one["metadata"]["name"]: one["spec"]["template"] for one in OBJECTS if "template" in one["spec"]
}

METRICS: Final = {
    line.split()[2] for line in Metrics().text().decode().splitlines() if line.startswith("# TYPE")
}


def test_pods_have_no_rights_and_a_read_only_root() -> None:
    assert set(PODS) == {"windlass-migrate", "windlass-api", "windlass-worker"}
    for pod in PODS.values():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        [container] = spec["containers"]
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        # A secret is not among the settings of the file.
        [store] = [one for one in container["env"] if one["name"] == "WINDLASS_STORE"]
        assert "secretKeyRef" in store["valueFrom"]


def test_services_and_disruption_budgets_select_pods_of_the_deployments() -> None:
    labels = [pod["metadata"]["labels"] for pod in PODS.values()]
    chosen = [one["spec"]["selector"] for one in OBJECTS if "selector" in one["spec"]]
    assert len(chosen) == 5
    assert all(one.get("matchLabels", one) in labels for one in chosen)


def _read(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))]


def test_policies_of_the_network_let_to_the_ports_of_pods_and_no_others() -> None:
    policies = [item for item in OBJECTS if item["kind"] == "NetworkPolicy"]
    assert [item["metadata"]["name"] for item in policies] == ["windlass-api", "windlass-worker"]
    for policy in policies:
        pod = PODS[policy["metadata"]["name"]]
        assert policy["spec"]["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
        [container] = pod["spec"]["containers"]
        ports = {port["containerPort"] for port in container["ports"]}
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports


def test_probes_ask_at_ports_that_the_containers_have() -> None:
    for name in ("windlass-api", "windlass-worker"):
        [container] = PODS[name]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probes = [container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]
        assert [probe["path"] for probe in probes] == ["/v1/ready", "/v1/health"]
        assert {probe["port"] for probe in probes} <= set(ports)
        settings = {item["name"]: item.get("value") for item in container["env"]}
        if "WINDLASS_WORKER_PORT" in settings:
            assert list(ports.values()) == [int(str(settings["WINDLASS_WORKER_PORT"]))]


def test_scaling_is_of_the_workers_and_goes_by_metrics_that_there_are() -> None:
    for item in _read("scaling.yaml"):
        assert item["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")
        spec = item["spec"]
        assert spec["scaleTargetRef"]["name"] == "windlass-worker"
        least = spec.get("minReplicaCount", spec.get("minReplicas"))
        most = spec.get("maxReplicaCount", spec.get("maxReplicas"))
        assert 1 <= least < most
        assert _metrics(str(spec)) <= METRICS
        assert _metrics(str(spec))


def test_alerts_go_by_metrics_that_there_are_and_name_a_part_of_the_runbook() -> None:
    [alerts] = _read("alerts.yaml")
    page = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    anchors = {
        line.lstrip("# ").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("#")
    }
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert _metrics(rule["expr"]), rule["alert"]
        assert _metrics(rule["expr"]) <= METRICS
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["runbook"].removeprefix("docs/operations.md#") in anchors


def _metrics(text: str) -> set[str]:
    """Return the metrics that a text names."""
    return set(re.findall(r"\bwindlass_[a-z_]+", text))


def test_the_services_of_compose_depend_on_each_other_and_are_read_only() -> None:
    whole = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = whole["services"]
    for name in ("migrate", "api", "worker"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert set(services[name]["depends_on"]) <= set(services)
    assert services["migrate"]["command"] == PODS["windlass-migrate"]["spec"]["containers"][0]["args"]
    for name in ("api", "worker"):
        assert services[name]["command"] == PODS[f"windlass-{name}"]["spec"]["containers"][0]["args"]


def test_processes_have_more_time_to_end_than_their_calls() -> None:
    times: list[tuple[float, float]] = []
    for name in ("windlass-api", "windlass-worker"):
        spec = PODS[name]["spec"]
        settings = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
        times.append(
            (spec["terminationGracePeriodSeconds"], float(settings.get("WINDLASS_DRAIN_S", SERVICE_DRAIN_S)))
        )
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    times += [
        (float(services[name]["stop_grace_period"].rstrip("s")), SERVICE_DRAIN_S)
        for name in ("api", "worker")
    ]
    page = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    times += [
        (float(found), SERVICE_DRAIN_S) for found in re.findall(r"^TimeoutStopSec=(\d+)$", page, re.MULTILINE)
    ]
    assert len(times) == 5
    assert [one for one in times if one[0] < one[1] + CLOSE_S] == []


def test_the_image_is_made_by_the_script_and_runs_as_another_user_than_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    last = text.rsplit("\nFROM ", 1)[1]
    assert "RUN sh deploy/install.sh" in text
    assert "\nUSER 10001:10001\n" in last
    users = {pod["spec"]["securityContext"]["runAsUser"] for pod in PODS.values()}
    assert users == {10001}


def test_bases_and_services_are_exact_versions() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    bases = dict(re.findall(r"^ARG ([A-Z]+)=(\S+)$", text, re.MULTILINE))
    for name in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert name.strip("${}") in bases
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    images = [one["image"] for one in services.values() if "image" in one and one["image"] != "windlass"]
    for image in [*bases.values(), *images]:
        assert re.fullmatch(r"[a-z/]+:[0-9]+[.][0-9]+([.][0-9]+)?(-[a-z-]+)?", image), image


def test_packages_that_are_a_boundary_are_the_versions_that_are_tested() -> None:
    locked = (DEPLOY.parent / "requirements/dev.txt").read_text(encoding="utf-8")
    packages = DEPLOY.parent / "packages"
    runtime = tomllib.loads((packages / "runtime/pyproject.toml").read_text(encoding="utf-8"))["project"]
    harness = tomllib.loads((packages / "harness/pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*runtime["optional-dependencies"]["code"], *harness["dependencies"]]
    exact = {one.name: str(one.specifier) for one in map(Requirement, needed)}
    for name in ("pydantic-monty", "tree-sitter", "tree-sitter-bash"):
        assert exact[name].startswith("==")
        assert f"\n{name}{exact[name]} " in locked
        wanted = (DEPLOY.parent / "requirements/dev.in").read_text(encoding="utf-8")
        assert f"\n{name}{exact[name]}\n" in wanted


def test_the_image_gets_what_the_tests_run_with_and_all_that_its_packages_need() -> None:
    tested, installed = (
        dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", (DEPLOY.parent / name).read_text("utf-8"), re.MULTILINE))
        for name in ("requirements/dev.txt", "requirements/image.txt")
    )
    assert {name: tested.get(name) for name in installed} == installed
    runtime_extras = ("postgres", "temporal", "otel", "anthropic", "openai", "client")
    for folder in ("protocol", "harness", "runtime", "server", "sidecar", "cli"):
        path = DEPLOY.parent / "packages" / folder / "pyproject.toml"
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        extras = runtime_extras if folder == "runtime" else ()
        needed = [*project["dependencies"]]
        needed += [line for extra in extras for line in project["optional-dependencies"][extra]]
        for requirement in map(Requirement, needed):
            if not requirement.name.startswith("windlass-"):
                version = installed.get(requirement.name)
                assert version is not None, f"{requirement} of {folder}: add it to requirements/image.in"
                assert requirement.specifier.contains(version)


def test_the_script_asks_no_index_for_our_packages_and_installs_only_what_is_locked() -> None:
    text = (DEPLOY / "install.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [line for line in text.splitlines() if '/bin/pip" install' in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements/image.txt" in installs[0]
    assert "--no-index --no-deps" in installs[1]
