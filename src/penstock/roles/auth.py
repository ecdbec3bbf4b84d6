"""Who may ask, by the configuration: clients with keys, with tokens, with either, or anybody. The roles with
clients (`embedded.py`, `gateway.py`) have their `Doorkeeper` made here, and `process.py` has the admin plane
checked."""

from collections.abc import Callable
from pathlib import Path

from penstock.auth.authenticator import Authenticator
from penstock.auth.claims import ClaimRules
from penstock.auth.doorkeeper import Doorkeeper
from penstock.auth.jwt import JwtSettings, JwtVerifier
from penstock.auth.keys import KeyRing
from penstock.auth.provider import ProviderSettings, is_this_machine
from penstock.auth.public_keys import StaticKey
from penstock.auth.records import KeyStore
from penstock.config import Config, Jwt
from penstock.errors import UserMistake
from penstock.from_config.tiers import tier_names
from penstock.roles.key_store import keys_at


def mode_in_force(config: Config) -> str:
    """Returns the `auth.mode` that holds. Raises UserMistake if anybody on the network could send requests and the
    configuration does not allow that in so many words."""
    auth, server = config.auth, config.server
    if auth.mode not in ("auto", "none"):
        return auth.mode
    if not is_this_machine(server.host) and not (auth.mode == "none" and auth.allow_anonymous):
        raise UserMistake(
            f"server.host is {server.host}, and everybody who can reach it could send requests: say who may with"
            " --auth keys (see penstock keys) or --auth jwt, or let everybody with --auth none --allow-anonymous"
        )
    return "none"


def check_admin(config: Config) -> None:
    """Raises UserMistake if the admin plane can be reached from other machines and has no token."""
    server = config.server
    if not is_this_machine(server.admin_host) and not server.admin_token:
        raise UserMistake(
            f"the admin plane on {server.admin_host} needs a token: set server.admin_token or"
            " PENSTOCK_SERVER_ADMIN_TOKEN"
        )


def doorkeeper(config: Config, make_store: Callable[[Path], KeyStore]) -> Doorkeeper | None:
    """Returns the doorkeeper; None if clients need not say who they are. `make_store`: makes the key store from the
    file of `auth.keys_file`; it is not called if `auth.keys_url` names another place."""
    mode = mode_in_force(config)
    if mode == "none":
        return None
    tiers = tier_names(config)
    ring, store, tokens = KeyRing(tiers), None, None
    if "keys" in mode:
        auth = config.auth
        store = keys_at(auth.keys_url) if auth.keys_url else make_store(Path(auth.keys_file))
    if "jwt" in mode:
        tokens = JwtVerifier(_jwt(config.auth.jwt, tiers))
    return Doorkeeper(Authenticator(ring if store else None, tokens), store, ring, tokens)


def _jwt(jwt: Jwt, tiers: list[str]) -> JwtSettings:
    claims = ClaimRules(
        jwt.issuer,
        jwt.audience,
        tiers,
        jwt.tenant_claim,
        jwt.tier_claim,
        jwt.default_tier or None,
        jwt.leeway,
    )
    provider = None
    if jwt.jwks_url:
        provider = ProviderSettings(jwt.jwks_url, refresh=jwt.refresh, allow_http=jwt.allow_http)
    return JwtSettings(claims, jwt.algorithms, provider, _static_keys(jwt))


def _static_keys(jwt: Jwt) -> tuple[StaticKey, ...]:
    if not jwt.key_file:
        return ()
    if len(jwt.algorithms) != 1:
        raise UserMistake(
            "auth.jwt.key_file holds the key of one algorithm: name only that one in auth.jwt.algorithms"
        )
    [algorithm] = jwt.algorithms
    try:
        material = Path(jwt.key_file).read_bytes()
    except OSError as error:
        raise UserMistake(f"auth.jwt.key_file: {jwt.key_file} cannot be read: {error.strerror}") from None
    return (StaticKey(algorithm, material.strip() if algorithm == "HS256" else material),)
