"""The hand that sets the replicas of a Kubernetes Deployment, by its `scale` subresource. `roles/autoscaler.py`
makes it.

It runs in a pod and uses what Kubernetes gives that: the address of the API in two environment variables, and a
token, the API's authority and the namespace in a folder. The token is read again for each call, since Kubernetes
renews it. The pod's service account needs `get` and `patch` on `deployments/scale`, and nothing else.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from penstock.errors import UserMistake
from penstock.ports.scaling import NotScaled

MERGE = "application/merge-patch+json"
SHOWN = 200  # characters of what the API said
HINTS = {
    401: "the API does not take the token of the pod's service account",
    403: "the pod's service account may not: it needs get and patch on deployments/scale",
    404: "there is no such Deployment",
}


class Kubernetes:
    """Implements `ports.scaling.Hand`."""

    def __init__(
        self,
        deployment: str,
        namespace: str,
        account: Path,
        timeout: float,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`namespace`: empty for the pod's own. `account`: the folder of the pod's service account."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise UserMistake(
                'autoscaler.act is "kubernetes", and this is no pod: KUBERNETES_SERVICE_HOST is not set.'
                ' Run it in the cluster, or set autoscaler.act to "tell" or "command"'
            )
        self._token, self._timeout = account / "token", timeout
        try:
            namespace = namespace or _read(account / "namespace").strip()
        except NotScaled as error:
            raise UserMistake(f"{error}: name the Deployment's in autoscaler.namespace") from None
        host = f"[{host}]" if ":" in host else host
        self._url = (
            f"https://{host}:{port}/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}/scale"
        )
        self._what = f"Deployment {namespace}/{deployment}"
        authority = account / "ca.crt"
        try:
            self._tls = ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise UserMistake(f"{authority}: the API's authority cannot be read: {error}") from None
        self._session: aiohttp.ClientSession | None = None

    async def present(self) -> int | None:
        return _replicas(await self._call("GET"))

    async def scale(self, workers: int) -> None:
        await self._call("PATCH", {"spec": {"replicas": workers}})

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, body: object = None) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._timeout))
        headers = {"authorization": f"Bearer {_read(self._token).strip()}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = MERGE
        try:
            async with self._session.request(
                method, self._url, json=body, headers=headers, ssl=self._tls, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    raise NotScaled(self._refused(answer.status, await answer.text(errors="replace")))
                return await answer.json()
        except TimeoutError:
            raise NotScaled(
                f"{self._what}: the Kubernetes API did not answer within {self._timeout:g} s"
            ) from None
        except (aiohttp.ClientError, ValueError) as error:
            raise NotScaled(f"{self._what}: the Kubernetes API: {error}") from None

    def _refused(self, status: int, text: str) -> str:
        hint = HINTS.get(status, text.strip()[:SHOWN])
        return f"{self._what}: the Kubernetes API answered {status}: {hint}"


def _replicas(scale: Any) -> int:
    """Returns how many replicas are asked for now. Kubernetes leaves the number out where it is 0."""
    try:
        return int(scale["spec"].get("replicas", 0))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NotScaled("the Kubernetes API answered with something that is no scale") from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise NotScaled(f"{file} cannot be read: {error.strerror}") from None
