"""Requests that were read and refused count against the quota of who sent them.

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
    def __init__(self, gateway: Gateway, doorman: Doorman) -> None:
        self._gateway = gateway
        self._doorman = doorman

    def check(self, identity: Identity) -> None:
        """Check the quota before a large body is looked through. Raises OverQuota; counts nothing."""
        self._gateway.check_quota(identity)

    def after(self, refusal: Exception, headers: Headers) -> Exception:
        """What the client is told: the refusal, or that this was beyond its quota. Not charged are strangers, and
        whoever cannot be told from a stranger now."""
        if isinstance(refusal, CHARGED):
            try:
                self._gateway.charge(self._doorman.identify(headers))
            except OverQuota as over:
                return over
            except Refused:
                pass
        return refusal
