"""Which parameters a model that takes only plain ones is asked with."""

import pytest

from penstock.errors import Refused, Unacceptable
from penstock.runtime.parameter_filter import with_scalars_only
from penstock.types import Request


def refusal(parameters: bytes) -> Refused | None:
    def admit(request: Request, now: float) -> Refused | None:
        return None

    request = Request("k", "m", b'"x"', 0.0, 9.0, 9.0, parameters=parameters)
    return with_scalars_only(admit)(request, 0.0)


def test_no_parameters_and_plain_ones_are_taken() -> None:
    assert refusal(b"") is None
    assert refusal(b'{"a":true,"b":-9223372036854775808,"c":0.5,"d":"x"}') is None


@pytest.mark.parametrize("value", [b"null", b"[1]", b"{}", b"9223372036854775808"])
def test_others_are_refused_by_name(value: bytes) -> None:
    refused = refusal(b'{"a":1,"odd":' + value + b"}")
    assert isinstance(refused, Unacceptable)
    assert "'odd' cannot be sent" in refused.message
