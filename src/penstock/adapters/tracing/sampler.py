"""Says which requests are traced, by the rules of OpenTelemetry's samplers. `request_spans.py` goes by it for each
request at a gateway, where a trace may begin. Pure.

A share of all traces is taken by the lower half of the trace's id, as OpenTelemetry's SDKs do. So services that
take the same share take the same traces.
"""

ALL = 2**64  # lower halves of ids

# By name: whether a client's own decision is followed, and the share of the other traces. None: as configured.
SAMPLERS: dict[str, tuple[bool, float | None]] = {
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}


class Sampler:
    """The rule of one sampler."""

    def __init__(self, name: str, ratio: float) -> None:
        self.follows_client, share = SAMPLERS[name]
        self.bound = round((ratio if share is None else share) * ALL)  # lower halves below it are traced

    def takes(self, trace: bytes) -> bool:
        """Returns whether a trace is taken, if the client's own decision does not count."""
        return int.from_bytes(trace[8:], "big") < self.bound
