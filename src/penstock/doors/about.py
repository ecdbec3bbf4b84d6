"""What the data plane says of itself: its models, whether it serves, and how it is used."""

from collections.abc import Callable, Mapping

import msgspec

from penstock.doors import answers
from penstock.doors.large import LargeBodies
from penstock.doors.openapi import DOCS_PAGE, openapi_document
from penstock.doors.visit import Handler, Visit
from penstock.edge.caller import Caller
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
        self._pages = LargeBodies(gateway.clock)  # one at a time: strangers may ask, and need not read
        self._page: tuple[object, bytes] | None = None  # what /openapi.json was made from, and as it is sent
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
        """Made anew when what it says has changed: anybody may ask for it, as often as they like."""
        gateway = self._gateway
        default = next((each for each in gateway.describe_models() if each["default"]), {}).get("id")
        models, asynchronous = dict(gateway.models), frozenset(gateway.asynchronous)
        parameters = dict(gateway.parameters)
        made_from = models, default, asynchronous, parameters
        if self._page is None or self._page[0] != made_from:
            document = openapi_document(
                models,
                self._max_body,
                self._controls,
                secured=self._secured,
                default=default,
                asynchronous=asynchronous,
                parameters=parameters,
            )
            self._page = made_from, msgspec.json.encode(document)
        async with self._pages.turn(""):
            caller.respond(200, [answers.JSON], self._page[1])

    async def _docs(self, caller: Caller, visit: Visit) -> None:
        async with self._pages.turn(""):
            caller.respond(200, [HTML], DOCS_PAGE)
