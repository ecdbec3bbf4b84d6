"""Whatever is sent as a credential, or published as a key, ends in a refusal and never in another error."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.auth.authenticator import Authenticator
from penstock.auth.keys import KeyRing, make_key
from penstock.auth.public_keys import offered_keys
from penstock.errors import Forbidden, Unauthorized
from token_kit import NOW, TIERS, Clock, jwk, part, sign, signed_parts, static_verifier

KEY, RECORD = make_key("acme", "paid", NOW)
RING = KeyRing(TIERS, Clock())
RING.replace([RECORD])
WHO = Authenticator(RING, static_verifier(Clock()))
GOOD = (KEY.encode(), sign("RS256", "r0"), sign("HS256", "h0"), sign("ES256", "e0"), sign("EdDSA", "d0"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["kty", "crv", "kid", "alg", "use", "key_ops", "n", "e", "x", "y", "d"])


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"pk_", b"eyJ", b"Bearer ", b"Bearer pk_", b"Bearer eyJ"])
)
def test_anything_at_all_is_refused(text: bytes, start: bytes) -> None:
    for name in (b"authorization", b"x-api-key"):
        with pytest.raises(Unauthorized):
            WHO.identify({name: start + text})


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.sampled_from(GOOD), st.data())
def test_a_credential_with_one_byte_changed_added_or_missing_is_refused(credential: bytes, data: Any) -> None:
    place = data.draw(st.integers(0, len(credential) - 1))
    inserted = data.draw(st.sampled_from([b"", b"A", b"_", b"-", b".", b"=", b"\xff"]))
    skipped = data.draw(st.integers(0, 1))
    changed = credential[:place] + inserted + credential[place + skipped :]
    if changed.strip() != credential:
        with pytest.raises(Unauthorized):
            WHO.identify({b"authorization": b"Bearer " + changed})


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "jwk"]), JSON), JSON)
def test_any_header_over_any_claims_is_refused_though_the_signature_is_right(
    header: Any, claims: Any
) -> None:
    signed = signed_parts({"alg": "RS256", "kid": "r0", **header}, claims)
    for token in (signed, part(header) + b"." + part(claims) + b"." + part(b"x")):
        with pytest.raises((Unauthorized, Forbidden)):
            WHO.identify({b"authorization": b"Bearer " + token})


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.sampled_from(["RS256", "ES256", "EdDSA"]), st.dictionaries(FIELDS, JSON, max_size=3), JSON)
def test_any_document_of_keys_gives_keys_or_a_value_error(algorithm: str, strange: Any, more: Any) -> None:
    for document in (more, {"keys": more}, {"keys": [{**jwk(algorithm, "k"), **strange}, more]}):
        with suppress(ValueError):
            assert len(offered_keys(document)) == 1
