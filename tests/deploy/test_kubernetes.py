"""The manifests of deploy/kubernetes, rendered, and held against the schemas of Kubernetes and of KEDA, against
each other, and against what the command line and the configuration know."""

import json
import os
import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml
from jsonschema import Draft202012Validator, ValidationError
from manifests import (
    FOLDER,
    OVERLAYS,
    ROLES,
    ROOT,
    SECRET,
    Manifest,
    Pod,
    named,
    of_kind,
    our_pods,
    pods,
    rendered,
    selects,
)

from penstock.cli.app import app_for
from penstock.config import Config, doubts, load
from penstock.server.life import FAREWELL

VERSIONS = ("1.31", "1.34", "1.37")
# Of Kubernetes itself. The validator passes whatever it does not know.
OWN = {"v1", "apps/v1", "autoscaling/v2", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"}
# Kinds that Kubernetes itself does not have. The schemas are ours, after what their projects publish.
FOREIGN = {
    path.stem: yaml.safe_load(path.read_text()) for path in (Path(__file__).parent / "schemas").glob("*.yaml")
}
DOCUMENT = (ROOT / "docs" / "kubernetes.md").read_text()
# Seconds that a hook, a signal and the end of a process take, on a machine that is busy.
AROUND_A_DRAIN = 15.0


def check_foreign(manifest: Manifest) -> None:
    Draft202012Validator(FOREIGN[manifest["kind"]]).validate(manifest)


def settings_of(pod: Pod, folder: Path) -> Config:
    """What a pod's process goes by: its file, then its variables."""
    ((_, text),) = pod.files()
    (folder / "penstock.toml").write_text(text)
    return load(folder / "penstock.toml", pod.environment(), {})


# ---- schemas ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_each_object_is_one_that_kubernetes_takes(version: str) -> None:
    different = {json.dumps(each, sort_keys=True): each for overlay in OVERLAYS for each in rendered(overlay)}
    for manifest in different.values():
        if manifest["kind"] not in FOREIGN:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_object_of_another_project_is_one_that_it_takes(overlay: str) -> None:
    for manifest in rendered(overlay):
        if manifest["kind"] in FOREIGN:
            check_foreign(manifest)
        else:
            assert manifest["apiVersion"] in OWN


def test_a_slip_of_the_pen_in_what_is_kubernetes_own_is_found() -> None:
    manifest = deepcopy(named("production", "Deployment", "penstock-gateway"))
    manifest["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    for version in VERSIONS:
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("ScaledObject", ("spec", "pollingintervall"), 5),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "valuelocation"), "workers"),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "targetValue"), 1),  # KEDA takes texts only
        ("TriggerAuthentication", ("spec", "secretTargetRef", 0, "field"), "token"),
        ("InferencePool", ("spec", "targetPortNumber"), 8000),  # of a version before
        ("HTTPRoute", ("spec", "rules", 0, "backendRef"), {}),
    ],
)
def test_a_slip_of_the_pen_in_what_is_not_kubernetes_own_is_found(
    kind: str, path: tuple[str | int, ...], value: object
) -> None:
    (overlay,) = [each for each in ("keda", "inference-pool") if of_kind(each, kind)]
    manifest = deepcopy(of_kind(overlay, kind)[0])
    check_foreign(manifest)
    inside: Any = manifest
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    with pytest.raises(ValidationError):
        check_foreign(manifest)


# ---- the command line and the configuration ------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_command_option_and_variable_is_one_that_penstock_knows(overlay: str, tmp_path: Path) -> None:
    known = getattr(typer.main.get_command(app_for([])), "commands")  # noqa: B009 - Typer has no public type for it
    found = our_pods(overlay)
    assert {pod.role for pod in found} >= {"gateway", "batcher", "worker"}
    for pod in found:
        role, *words = pod.container["args"]
        assert role == pod.role
        (((path, _),),) = (tuple(pod.files()),)
        assert words[words.index("--config") + 1] == path
        hook = (
            pod.container.get("lifecycle", {})
            .get("preStop", {})
            .get("exec", {})
            .get("command", ["penstock", "drain"])
        )
        for command, arguments in ((role, words), (hook[1], hook[2:])):
            options = {option for parameter in known[command].params for option in parameter.opts}
            assert {word for word in arguments if word.startswith("-")} <= options
        config = settings_of(pod, tmp_path)
        ours = {name for name in pod.environment() if name.startswith("PENSTOCK_")}
        assert {source for source in config.sources.values() if source.startswith("PENSTOCK_")} == ours
        # That everything listens everywhere is what a network policy, the token and the keys are for.
        assert {doubt.split(" ")[0] for doubt in doubts(config, over_redis=True)} == {
            "server.host",
            "server.admin_host",
        }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ports_are_those_where_the_process_listens(overlay: str, tmp_path: Path) -> None:
    for pod in our_pods(overlay):
        server = settings_of(pod, tmp_path).server
        assert (server.host, server.admin_host) == ("0.0.0.0", "0.0.0.0")
        assert pod.port("admin") == server.admin_port
        assert {each["name"] for each in pod.container["ports"]} == (
            {"http", "admin"} if pod.role == "gateway" else {"admin"}
        )
        if pod.role == "gateway":
            assert pod.port("http") == server.port


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_has_longer_to_end_than_its_drain_takes_and_longer_to_start_than_its_model(
    overlay: str, tmp_path: Path
) -> None:
    for pod in our_pods(overlay):
        config = settings_of(pod, tmp_path)
        drain = config.server.drain_grace + config.server.drain + FAREWELL
        assert pod.spec["terminationGracePeriodSeconds"] >= drain + AROUND_A_DRAIN
        probe = pod.container["startupProbe"]
        start = max((model.start_timeout for model in config.models.values()), default=0.0)
        if pod.role == "worker":
            assert probe["periodSeconds"] * probe["failureThreshold"] > start
            assert (
                pod.owner["spec"]["progressDeadlineSeconds"]
                > probe["periodSeconds"] * probe["failureThreshold"]
            )
        else:
            # Such a process is not ready as long as no batcher or no worker is; that is no reason to start it anew.
            assert probe["httpGet"]["path"] == "/livez"
        assert pod.container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert pod.container["readinessProbe"]["httpGet"]["path"] == "/readyz"


# ---- among each other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_whatever_names_another_object_names_one_that_is_there(overlay: str) -> None:
    there = pods(overlay)
    for service in of_kind(overlay, "Service"):
        (pod,) = [each for each in there if selects(service["spec"]["selector"], each.labels)]
        for port in service["spec"]["ports"]:
            pod.port(port["targetPort"])
    for budget in of_kind(overlay, "PodDisruptionBudget"):
        assert [each for each in there if selects(budget["spec"]["selector"], each.labels)]
    for policy in of_kind(overlay, "NetworkPolicy"):
        chosen = [each for each in there if selects(policy["spec"]["podSelector"], each.labels)]
        assert chosen
        for rule in policy["spec"].get("ingress", ()):
            for port in rule["ports"]:
                assert any(each.port(port["port"]) for each in chosen if port["port"] in _ports(each))
        for rule in policy["spec"].get("egress", ()):
            for to in rule.get("to", ()):
                if set(to) == {"podSelector"}:
                    reached = [each for each in there if selects(to["podSelector"], each.labels)]
                    assert all(_ports(each) >= {port["port"] for port in rule["ports"]} for each in reached)
                    assert reached
    for scaler in of_kind(overlay, "HorizontalPodAutoscaler", "ScaledObject"):
        named(overlay, "Deployment", scaler["spec"]["scaleTargetRef"]["name"])
    for pod in there:
        assert selects(pod.owner["spec"]["selector"], pod.labels)
        for probe in pod.probes():
            port = (probe.get("httpGet") or probe.get("tcpSocket") or {}).get("port")
            assert port is None or pod.port(port)
        volumes = {each["name"] for each in pod.spec.get("volumes", ())}
        volumes |= {each["metadata"]["name"] for each in pod.owner["spec"].get("volumeClaimTemplates", ())}
        assert {each["name"] for each in pod.container["volumeMounts"]} == volumes
        for each in pod.spec.get("topologySpreadConstraints", ()):
            assert selects(each["labelSelector"], pod.labels)
            assert set(each["matchLabelKeys"]) <= {*pod.labels, "pod-template-hash"}
    for pool in of_kind(overlay, "InferencePool"):
        (pod,) = [each for each in there if selects(pool["spec"]["selector"], each.labels)]
        assert [pod.port(port["number"]) for port in pool["spec"]["targetPorts"]] == [pod.port("http")]
    namespaces = {
        each["metadata"].get("namespace") for each in rendered(overlay) if each["kind"] != "Namespace"
    }
    assert namespaces == {each["metadata"]["name"] for each in of_kind(overlay, "Namespace")}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_secrets_that_pods_read_are_in_the_file_or_in_the_documents(overlay: str) -> None:
    secrets = {each["metadata"]["name"]: set(each["data"]) for each in of_kind(overlay, "Secret")}
    told = set(re.findall(r"--from-literal=([a-z-]+)=", DOCUMENT))
    for pod in pods(overlay):
        for each in pod.container["env"]:
            if "secretKeyRef" in each.get("valueFrom", {}):
                wanted = each["valueFrom"]["secretKeyRef"]
                assert wanted["key"] in secrets.get(
                    wanted["name"], told if wanted["name"] == "penstock" else ()
                )


def _ports(pod: Pod) -> set[str | int]:
    return {key for each in pod.container["ports"] for key in (each["name"], each["containerPort"])}


def test_redis_is_where_the_roles_look_for_it() -> None:
    service = named("production", "Service", "penstock-valkey")
    (port,) = service["spec"]["ports"]
    for pod in our_pods("production"):
        url = pod.environment()["PENSTOCK_REDIS_URL"]
        assert url == f"redis://:{SECRET['valkey-password']}@{service['metadata']['name']}:{port['port']}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nobody_but_the_autoscaler_has_a_token_and_it_may_only_scale_the_workers(overlay: str) -> None:
    with_token = {pod.role for pod in pods(overlay) if pod.spec["automountServiceAccountToken"]}
    rules = [rule for role in of_kind(overlay, "Role", "ClusterRole") for rule in role["rules"]]
    if overlay in ("dev", "keda"):
        assert (with_token, rules) == (set(), [])
        return
    assert with_token == {"autoscaler"}
    (rule,) = rules
    assert (rule["apiGroups"], rule["resources"]) == (["apps"], ["deployments/scale"])
    assert set(rule["verbs"]) <= {"get", "patch", "update"}
    (binding,) = of_kind(overlay, "RoleBinding")
    (subject,) = binding["subjects"]
    (account,) = of_kind(overlay, "ServiceAccount")
    assert (subject["name"], subject["namespace"]) == (
        account["metadata"]["name"],
        account["metadata"]["namespace"],
    )
    (autoscaler,) = [pod for pod in pods(overlay) if pod.role == "autoscaler"]
    assert autoscaler.spec["serviceAccountName"] == account["metadata"]["name"]
    assert rule["resourceNames"] == [autoscaler.environment()["PENSTOCK_AUTOSCALER_DEPLOYMENT"]]
    named(overlay, "Deployment", *rule["resourceNames"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_pod_fits_into_a_namespace_that_is_restricted(overlay: str) -> None:
    for namespace in of_kind(overlay, "Namespace"):
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods(overlay):
        around, inside = pod.spec["securityContext"], pod.container["securityContext"]
        assert around["runAsNonRoot"]
        assert around["runAsUser"] > 0
        assert around["seccompProfile"] == {"type": "RuntimeDefault"}
        assert inside == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec)
        assert all({"emptyDir", "configMap"} & set(volume) for volume in pod.spec.get("volumes", ()))
        assert {"requests", "limits"} <= set(pod.container["resources"])
    dockerfile = (ROOT / "Dockerfile").read_text()
    for pod in our_pods(overlay):
        user = pod.spec["securityContext"]
        assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in dockerfile


def test_production_survives_the_loss_of_a_zone_and_of_a_node_that_is_emptied() -> None:
    budgets = of_kind("production", "PodDisruptionBudget")
    for pod in our_pods("production"):
        assert [each for each in budgets if selects(each["spec"]["selector"], pod.labels)]
        keys = [each["topologyKey"] for each in pod.spec["topologySpreadConstraints"]]
        assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    (scaler,) = of_kind("production", "HorizontalPodAutoscaler")
    assert scaler["spec"]["minReplicas"] >= 3
    target = scaler["spec"]["metrics"][0]["containerResource"]["target"]
    assert target == {"type": "Utilization", "averageUtilization": 70}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_who_form_and_run_batches_know_the_zone_of_their_node_in_production(
    overlay: str, tmp_path: Path
) -> None:
    for pod in our_pods(overlay):
        knows = overlay != "dev" and pod.role in ("gateway", "batcher", "worker")
        assert settings_of(pod, tmp_path).server.zone == ("zone-a" if knows else "")


def test_one_slot_has_one_device() -> None:
    (worker,) = [pod for pod in pods("gpu") if pod.role == "worker"]
    args = worker.container["args"]
    assert args[args.index("--slots") + 1] == "1"
    assert worker.container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert worker.owner["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def overlay_of(kustomization: Mapping[str, object], folder: Path) -> str:
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return str(folder)


def test_a_redis_of_ones_own_takes_the_place_of_valkey(tmp_path: Path) -> None:
    parts = {"resources": ["base"], "components": ["components/redis-address"]}
    inside = {
        key: [os.path.relpath(FOLDER / each, tmp_path) for each in those] for key, those in parts.items()
    }
    overlay = overlay_of(inside, tmp_path)
    assert {pod.role for pod in pods(overlay)} == set(ROLES)
    assert not of_kind(overlay, "StatefulSet")
    assert "penstock-valkey" not in {each["metadata"]["name"] for each in of_kind(overlay, "Service")}
    for pod in pods(overlay):
        assert pod.environment()["PENSTOCK_REDIS_URL"] == SECRET["redis-url"]
        assert "VALKEY_PASSWORD" not in pod.environment()


def test_the_overlay_that_the_documents_show_has_another_image_and_another_configuration(
    tmp_path: Path,
) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    shown = yaml.safe_load(text)
    for key in ("resources", "components"):
        shown[key] = [os.path.relpath(ROOT / each.removeprefix("penstock/"), tmp_path) for each in shown[key]]
    (tmp_path / "penstock.toml").write_text("[models.mine]\ntarget = 'app.py:predict'\n")
    overlay = overlay_of(shown, tmp_path)
    (worker,) = [pod for pod in pods(overlay) if pod.role == "worker"]
    assert worker.container["image"] == "ghcr.io/you/your-model:7"
    assert worker.container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert dict(worker.files()) == {"/etc/penstock/penstock.toml": (tmp_path / "penstock.toml").read_text()}
