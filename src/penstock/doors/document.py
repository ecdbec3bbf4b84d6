"""Two doors: `/openapi.json`, the OpenAPI document that describes all other doors, and `/docs`, the HTML page that
shows it. The data plane calls them, as every door. Anybody may ask for these pages, so the document is kept until
the models change."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.doors.door import Door, Inside, Respond, TellingDoor, Visit
from penstock.doors.large import LargeBodies
from penstock.doors.openapi import openapi_document
from penstock.doors.openapi_parts import Offer
from penstock.edge.answer import JSON, Answer

HTML = ("content-type", "text/html; charset=utf-8")
PAGE = Path(__file__).with_name("docs.html").read_bytes()


class Document(TellingDoor):
    """Tells the document."""

    name = "docs"
    path = "/openapi.json"
    public = True

    def __init__(self, inside: Inside, doors: Sequence[Door], turns: LargeBodies) -> None:
        """`turns`: lets one page be sent at a time. Anybody may ask for these pages, and a client may ask often
        without reading the answers."""
        super().__init__(inside)
        self._doors = doors
        self._turns = turns
        # The offer that the document was made from, and the bytes that are sent.
        self._made: tuple[Offer, bytes] | None = None

    async def tell(self, visit: Visit, respond: Respond) -> None:
        """Answer with the document. It is built again only when the offer has changed, because anybody may ask for
        it as often as they like."""
        offer = self._offer()
        if self._made is None or self._made[0] != offer:
            self._made = offer, msgspec.json.encode(openapi_document(self._doors, offer))
        async with self._turns.turn(""):
            respond(Answer(200, [JSON], self._made[1]))

    def _offer(self) -> Offer:
        gateway, limits = self.inside.gateway, self.inside.limits
        models = dict(gateway.models)
        default = next((each["id"] for each in gateway.describe_models() if each["default"]), None)
        return Offer(
            models,
            str(default) if default is not None else next(iter(models)) if len(models) == 1 else None,
            frozenset(gateway.taking_bytes),
            frozenset(filter(None, gateway.asynchronous)),
            dict(gateway.parameters),
            secured=self.inside.secured,
            clean=limits.control_characters == "refuse",
            max_body=limits.max_body,
            max_asks=limits.max_asks,
            calls_back=self.inside.webhooks is not None,
        )


class Docs(TellingDoor):
    """Tells the page."""

    name = "docs"
    path = "/docs"
    public = True

    def __init__(self, inside: Inside, turns: LargeBodies) -> None:
        super().__init__(inside)
        self._turns = turns

    async def tell(self, visit: Visit, respond: Respond) -> None:
        async with self._turns.turn(""):
            respond(Answer(200, [HTML], PAGE))
