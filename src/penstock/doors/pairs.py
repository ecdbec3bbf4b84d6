"""Makes pairs of texts, which rerankers take: a query with each of its documents. The doors that rank call it
(`rerank.py`, `tei_rerank.py`), and for single pairs the one that classifies (`tei_predict.py`).

    "a query", ["one", "two"]    ──►    ["a query","one"]    ["a query","two"]

Each pair is a request of its own, and reaches the model as a list of two texts. So only models that take any JSON
take pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.doors.door import Inside
from penstock.doors.inputs import inputs_of
from penstock.doors.openapi_parts import Offer
from penstock.doors.steps import Steps
from penstock.errors import TooLarge, Unacceptable

# The query is copied into each pair. So the pairs of a call may hold so many times `limits.max_body` together.
MOST = 4


class Pairs:
    """Checks texts, and puts them together."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._inputs = inputs_of(inside)

    def refuse_text_only(self, model: str | None, what: str) -> None:
        """Refuse a pair for a model that takes text alone. `what`: the names of the fields, as in "'query'"."""
        if self._inside.gateway.kind_of(model) == "text":
            raise Unacceptable(
                f"{what} would reach the model as a pair of texts, and this model takes one text alone:"
                ' its setting input must be "json" for that'
            )

    def with_each(
        self, query: bytes, documents: Sequence[bytes], model: str | None, *, ascii_only: bool
    ) -> Steps[list[bytes]]:
        """Returns the pairs of a query with each document, checked; all are JSON strings. `ascii_only`: whether the
        body that they are from is all ASCII."""
        self._inside.check_number(len(documents))
        self._check_size(query, documents)
        query = yield from self._inputs.check_in_steps(query, model, ascii_only=ascii_only)
        pairs = []
        for document in documents:
            yield
            checked = yield from self._inputs.check_in_steps(document, model, ascii_only=ascii_only)
            pairs.append(b"[%b,%b]" % (query, checked))
        return pairs

    def _check_size(self, query: bytes, documents: Sequence[bytes]) -> None:
        size = len(query) * len(documents) + sum(map(len, documents))
        most = MOST * self._inside.limits.max_body
        if size > most:
            raise TooLarge(
                f"the query stands in each of {len(documents)} pairs, which hold {size} bytes together, and"
                f" {MOST} times limits.max_body is {most}"
            )


def taking_pairs(offer: Offer) -> Offer:
    """Returns the offer with those models alone that take pairs."""
    models: Mapping[str, str] = {name: kind for name, kind in offer.models.items() if kind != "text"}
    return replace(offer, models=models, default=offer.default if offer.default in models else None)
