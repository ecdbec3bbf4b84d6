"""The manifests of deploy/kubernetes as a cluster would be given them, and what a pod of one is started with."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(folder.name for folder in (FOLDER / "overlays").iterdir())
IMAGE = "penstock"  # the last part of the name of our own image
ROLES = ("gateway", "batcher", "worker", "autoscaler")
SECRET = {"admin-token": "a token", "valkey-password": "word", "redis-url": "redis://elsewhere:6379"}

# What the label of a node says to a pod on it.
NODE_LABELS = {"metadata.labels['topology.kubernetes.io/zone']": "zone-a"}

Manifest = dict[str, Any]


def kustomize() -> list[str]:
    """The command that renders; without one, nothing here can be tested."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    pytest.skip("neither kubectl nor kustomize is on the PATH: the manifests are not checked")


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    done = subprocess.run(
        [*kustomize(), str(FOLDER / "overlays" / overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # a warning is about something that will not work for long
    return tuple(yaml.load_all(done.stdout, yaml.CSafeLoader))


def of_kind(overlay: str, *kinds: str) -> list[Manifest]:
    return [each for each in rendered(overlay) if each["kind"] in kinds]


def named(overlay: str, kind: str, name: str) -> Manifest:
    (found,) = (each for each in of_kind(overlay, kind) if each["metadata"]["name"] == name)
    return found


@dataclass(frozen=True)
class Pod:
    """The template of a Deployment or a StatefulSet."""

    owner: Manifest
    config: Mapping[str, Mapping[str, str]]  # the data of each ConfigMap of the overlay

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.owner["spec"]["template"]["metadata"]["labels"]
        return labels

    @property
    def role(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.owner["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        (container,) = self.spec["containers"]
        assert isinstance(container, dict)
        return container

    @property
    def ours(self) -> bool:
        return str(self.container["image"]).rpartition(":")[0].rpartition("/")[2] == IMAGE or (
            self.container["image"] == IMAGE
        )

    def environment(self) -> dict[str, str]:
        """The variables that the kubelet would set, with the secrets of these tests."""
        found: dict[str, str] = {}
        for each in self.container.get("env", ()):
            source = each.get("valueFrom", {})
            if "secretKeyRef" in source:
                found[each["name"]] = SECRET[source["secretKeyRef"]["key"]]
            elif "fieldRef" in source:
                found[each["name"]] = NODE_LABELS[source["fieldRef"]["fieldPath"]]
            else:
                found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], each["value"])
        return found

    def files(self) -> Iterator[tuple[str, str]]:
        """Where the files of its ConfigMaps are mounted, and what is in them."""
        mounts = {each["name"]: each["mountPath"] for each in self.container["volumeMounts"]}
        for volume in self.spec["volumes"]:
            if "configMap" in volume:
                for name, text in self.config[volume["configMap"]["name"]].items():
                    yield f"{mounts[volume['name']]}/{name}", text

    def probes(self) -> Iterator[Manifest]:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            yield self.container[name]

    def port(self, name: str | int) -> int:
        """The number of a port that the container has."""
        (number,) = (
            each["containerPort"]
            for each in self.container["ports"]
            if name in (each["name"], each["containerPort"])
        )
        assert isinstance(number, int)
        return number


def pods(overlay: str) -> list[Pod]:
    config = {each["metadata"]["name"]: each["data"] for each in of_kind(overlay, "ConfigMap")}
    return [Pod(each, config) for each in of_kind(overlay, "Deployment", "StatefulSet", "Job")]


def our_pods(overlay: str) -> list[Pod]:
    return [pod for pod in pods(overlay) if pod.ours and pod.role in COMMANDS]


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether a selector of labels takes these: with `matchLabels` and `In`, or as a Service has it."""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return selector.items() <= labels.items()
    for each in selector.get("matchExpressions", ()):
        assert each["operator"] == "In"
        if labels.get(each["key"]) not in each["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())
