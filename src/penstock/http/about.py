"""What the data plane says of itself: its models, whether it serves, and how it is used (SPEC A11)."""

from collections.abc import Callable, Mapping

import msgspec

from penstock.http import answers
from penstock.http.caller import Caller
from penstock.http.openapi import DOCS_PAGE, openapi_document
from penstock.http.visit import Handler, Visit
from penstock.ports import Gateway

HTML = ("content-type", "text/html; charset=utf-8")
FRESH = ("cache-control", "no-store")  # it is another answer a moment later


class About:
    def __init__(
        self,
        gateway: Gateway,
        *,
        max_body: int,
        control_characters: str,
        secured: bool,
        not_ready: Callable[[], str],
    ) -> None:
        """`not_ready`: why no traffic should come here; empty when it should."""
        self._gateway = gateway
        self._max_body = max_body
        self._controls = control_characters
        self._secured = secured
        self._not_ready = not_ready
        self.open_routes: Mapping[str, dict[str, Handler]] = {  # for whoever asks
            "/health": {"GET": self._health, "HEAD": self._health},
            "/openapi.json": {"GET": self._openapi},
            "/docs": {"GET": self._docs},
        }

    async def models(self, caller: Caller, visit: Visit) -> None:
        said = {"object": "list", "data": self._gateway.describe_models()}
        caller.respond(200, [answers.JSON, FRESH], msgspec.json.encode(said))

    async def _health(self, caller: Caller, visit: Visit) -> None:
        reason = self._not_ready()
        said = {"status": "unavailable", "reason": reason} if reason else {"status": "ok"}
        caller.respond(503 if reason else 200, [answers.JSON, FRESH], msgspec.json.encode(said))

    async def _openapi(self, caller: Caller, visit: Visit) -> None:
        gateway = self._gateway
        document = openapi_document(
            gateway.models,
            self._max_body,
            self._controls,
            secured=self._secured,
            default=next((each for each in gateway.describe_models() if each["default"]), {}).get("id"),
            asynchronous=gateway.asynchronous,
            parameters=gateway.parameters,
        )
        caller.respond(200, [answers.JSON], msgspec.json.encode(document))

    async def _docs(self, caller: Caller, visit: Visit) -> None:
        caller.respond(200, [HTML], DOCS_PAGE)
