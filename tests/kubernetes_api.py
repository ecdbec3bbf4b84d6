"""An HTTPS server that does what the Kubernetes API does with the scale of a Deployment, and the folder of a
service account to ask it with.

async with serving(Api(), folder) as (api, environ):
    ...                              # api.replicas is what was set
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from certificates import Authority

NAMESPACE = "penstock-test"


@dataclass
class Api:
    """One Deployment. `status` and `body`: answers everything with these."""

    replicas: int = 2
    name: str = "workers"
    token: str = "first"
    status: int = 0
    body: str = ""
    silent: bool = False
    asked: list[str] = field(default_factory=list)
    on_scale: Callable[[int], None] = lambda replicas: None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if self.silent:
            await asyncio.Event().wait()
        if self.status:
            return web.Response(status=self.status, text=self.body, content_type="application/json")
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _refused(401, "Unauthorized")
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self.name}/scale"
        if request.path != path:
            return _refused(404, "NotFound")
        if request.method == "PATCH":
            if request.content_type != "application/merge-patch+json":
                return _refused(415, "UnsupportedMediaType")
            wanted = (await request.json())["spec"]["replicas"]
            if not isinstance(wanted, int) or wanted < 0:
                return _refused(422, "Invalid")
            self.replicas = wanted
            self.on_scale(wanted)
        elif request.method != "GET":
            return _refused(405, "MethodNotAllowed")
        return web.json_response(self._scale())

    def _scale(self) -> dict[str, Any]:
        spec = {"replicas": self.replicas} if self.replicas else {}  # as Go leaves out what is zero
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": spec,
            "status": {"replicas": self.replicas, "selector": "app=penstock"},
        }


def _refused(status: int, reason: str) -> web.Response:
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    return web.Response(status=status, text=json.dumps(said), content_type="application/json")


def account_of(folder: Path, authority: Authority) -> None:
    """What Kubernetes puts into a pod, in this folder."""
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text(NAMESPACE)
    (folder / "ca.crt").write_bytes(authority.pem)


@asynccontextmanager
async def serving(api: Api, folder: Path) -> AsyncIterator[tuple[Api, Mapping[str, str]]]:
    """Serve until the block ends. What is given back with it is the environment of a pod."""
    authority = Authority()
    account_of(folder, authority)
    pair = authority.issue(folder, "api")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield api, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
    finally:
        await runner.cleanup()
