"""Finds out who asks from a request's headers: `Authorization: Bearer <API key or token>`, or `X-API-Key`.

The data plane calls it for each request, if clients must say who they are. It only finds the credential in the
headers: `keys.py` checks API keys, and `jwt.py` tokens.
"""

from collections.abc import Mapping

from penstock.auth.identity import Identity
from penstock.auth.jwt import JwtVerifier
from penstock.auth.keys import PREFIX, KeyRing
from penstock.errors import KeysWanted, Unauthorized

BEARER = b"Bearer "
LENGTH = len(BEARER)
NO_KEYS = "API keys are not taken here: send a token"
_KEY = PREFIX.encode()


class Authenticator:
    """Implements `ports.gateway.Doorman`, for API keys, tokens, or both."""

    def __init__(self, keys: KeyRing | None = None, tokens: JwtVerifier | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    def recall(self, authorization: bytes) -> Identity | None:
        """Returns who asks, by an Authorization header that begins as `BEARER`, if its credential was verified
        before and is still good. None says nothing: `identify` finds out."""
        credential, keys, tokens = authorization[LENGTH:], self._keys, self._tokens
        identity = None if keys is None else keys.remembered.find(credential, keys.now)
        if identity is None and tokens is not None:
            return tokens.remembered.find(credential, tokens.now)
        return identity

    def find_out_again(self) -> None:
        """Let the standing of each identity be found out again, since tiers or quotas have changed."""
        for each in (self._keys, self._tokens):
            if each is not None:
                each.remembered.find_out_again()

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Returns who asks, at once. Raises Unauthorized or Forbidden; StoreDown while tokens cannot be checked;
        KeysWanted if `identify_slowly` may know more."""
        value = headers.get(b"authorization")
        if b"x-api-key" in headers:
            if value is not None:
                raise Unauthorized("send one of Authorization and X-API-Key, not both")
            return self._by_key(headers[b"x-api-key"].strip())
        if value is None:
            raise Unauthorized(
                "say who you are: Authorization: Bearer <API key or token>, or X-API-Key: <API key>"
            )
        credential = value[len(BEARER) :].strip() if value.startswith(BEARER) else _credential(value)
        if self._keys is not None and credential.startswith(_KEY):
            return self._keys.identify(credential)
        if self._tokens is None:
            raise Unauthorized("the credential is not an API key: one begins with pk_")
        if credential.startswith(_KEY):
            raise Unauthorized(NO_KEYS)
        return self._tokens.identify(credential)

    async def identify_slowly(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Returns who asks, as `identify` does, after asking the identity provider for its keys if that may
        help."""
        try:
            return self.identify(headers)
        except KeysWanted:
            assert self._tokens is not None
            assert self._tokens.provider is not None
            await self._tokens.provider.refresh()
        return self.identify(headers)

    def _by_key(self, credential: bytes) -> Identity:
        if self._keys is None:
            raise Unauthorized(NO_KEYS)
        return self._keys.identify(credential)


def _credential(value: bytes) -> bytes:
    """Returns the credential after the scheme `Bearer`, whose name may be written in any case."""
    scheme, _, credential = value.partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthorized("the Authorization header must be: Bearer <API key or token>")
    return credential.strip()
