"""Which requests a gateway of a cluster lets in."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from runtime_kit import ask

from penstock.cluster.gateway_admission import GatewayAdmission
from penstock.errors import Overloaded


@pytest.mark.parametrize(("waiting", "more", "refused"), [(1, 9, False), (1, 10, True), (10, 1, True)])
def test_many_are_refused_at_once_if_the_gateway_has_no_room_for_them_all(
    waiting: int, more: int, refused: bool
) -> None:
    registry, publisher = SimpleNamespace(members={"batchers": {}}), SimpleNamespace(down=False)
    admission = GatewayAdmission(
        cast(Any, registry), cast(Any, publisher), lambda: waiting, max_waiting=10, memory_limit=0.9
    )
    said = admission.refusal_of_more("model", ask(), more, 0.0)
    assert isinstance(said, Overloaded) == refused
