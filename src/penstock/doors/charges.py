"""Requests that were read and refused count against the quota of their sender. The data plane tells it of each
refusal after a body was read.

To read a body and to find what is wrong with it costs the server about as much as to serve it. If that were free, a
tenant could take the server's time from the others without ever meeting a limit of its own.
"""

from penstock.edge.fields import Headers
from penstock.errors import (
    Malformed,
    NoInput,
    NoSuchModel,
    OverQuota,
    Refused,
    TooLarge,
    Unacceptable,
    UnsupportedMedia,
)
from penstock.ports import Doorman, Gateway
from penstock.types import Identity

CHARGED = (Malformed, NoInput, NoSuchModel, TooLarge, Unacceptable, UnsupportedMedia)


class Charges:
    """Checks and charges the quotas of those who send such requests."""

    def __init__(self, gateway: Gateway, doorman: Doorman) -> None:
        self._gateway = gateway
        self._doorman = doorman

    def check(self, identity: Identity) -> None:
        """Check the quota before a large body is looked through. Raises OverQuota; counts nothing."""
        self._gateway.check_quota(identity)

    def after(self, refusal: Exception, headers: Headers) -> Exception:
        """Charges the sender of a refused request. Returns the error that the client gets: the refusal, or
        OverQuota if its quota was used up. Strangers are not charged, nor is a client whose identity cannot be
        found out now."""
        if isinstance(refusal, CHARGED):
            try:
                self._gateway.charge(self._doorman.identify(headers))
            except OverQuota as over:
                return over
            except Refused:
                pass
        return refusal
