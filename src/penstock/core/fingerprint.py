"""Fingerprints: the names under which gateways find each other's answers of deterministic models.

A fingerprint is the SHA-256 of who may have the answer, the model, its version, the parameters and the input. Every
part but the last is preceded by its length, so that no two lists of parts give the same bytes. The gateway's cache
(`runtime/collapse`) looks answers up by them in the store that all gateways share.
"""

from hashlib import sha256

from penstock.types import Request

FORM = b"penstock answers 1"  # changes with the form of the fingerprint, and of what is stored under it
MAKER_BYTES = 16  # bytes that stand for a tenant


class Fingerprints:
    """The fingerprints of requests to one model at one version."""

    __slots__ = ("_prefix", "_shared")

    def __init__(self, model: str, version: str, *, shared: bool) -> None:
        self._shared = shared
        parts = (FORM, b"shared" if shared else b"tenant", model.encode(), version.encode())
        self._prefix = b"".join(b"%d:%b" % (len(part), part) for part in parts)

    def of(self, request: Request) -> bytes:
        """The fingerprint of a request."""
        tenant = b"" if self._shared else request.tenant.encode()
        parameters = request.parameters
        return sha256(
            b"%b%d:%b%d:%b%b"
            % (self._prefix, len(tenant), tenant, len(parameters), parameters, request.input)
        ).digest()


def maker(tenant: str) -> bytes:
    """Returns bytes that stand for the tenant who made an answer, beside that answer. A gateway can tell by them
    whether a tenant is given its own answer or another tenant's."""
    return sha256(b"penstock maker:" + tenant.encode()).digest()[:MAKER_BYTES]
