"""For models that take only plain parameters, as a gRPC endpoint does: refuses other requests when they arrive.

The endpoint's adapter would refuse them too, but only as a failed batch, which counts against the worker. So the
desk of such a model, which the gateway asks for each request, is given this check.
"""

import msgspec

from penstock.errors import Refused, Unacceptable
from penstock.runtime.desk import Admit
from penstock.types import Request

INT64 = range(-(2**63), 2**63)


def with_scalars_only(admit: Admit) -> Admit:
    """Returns an `Admit` that refuses parameters which are no scalars, and then asks `admit`."""

    def refusal(request: Request, now: float) -> Refused | None:
        if request.parameters:
            for name, value in msgspec.json.decode(request.parameters).items():
                if not is_scalar(value):
                    return Unacceptable(
                        f"the parameter {name!r} cannot be sent:"
                        f" the model {request.model!r} takes texts, numbers, true and false"
                    )
        return admit(request, now)

    return refusal


def is_scalar(value: object) -> bool:
    return isinstance(value, bool | float | str) or (isinstance(value, int) and value in INT64)
