"""API keys: what they are, who they let in, and when they stop."""

import re
from dataclasses import replace

import pytest

from penstock.auth import keys as keys_module
from penstock.auth.authenticator import Authenticator
from penstock.auth.identity import Identity
from penstock.auth.keys import KeyRing, id_of, make_key
from penstock.auth.records import KeyRecord
from penstock.auth.remembered import Remembered
from penstock.errors import Forbidden, Unauthorized, UserMistake
from token_kit import NOW, TIERS, Clock, sign, static_verifier


def ring_of(*records: KeyRecord, clock: Clock | None = None) -> KeyRing:
    ring = KeyRing(TIERS, clock or Clock())
    ring.replace(records)
    return ring


def test_a_key_has_an_id_to_find_it_by_and_a_secret_of_256_bits_that_is_not_kept() -> None:
    key, record = make_key("acme", "paid", NOW, 60.0, "for the tests")
    assert re.fullmatch(r"pk_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}", key)
    assert (record.tenant, record.tier, record.expires) == ("acme", "paid", NOW + 60)
    assert id_of(key) == id_of(f"pk_{record.id}") == id_of(record.id) == record.id
    secret = key.rpartition("_")[2]
    assert secret.encode() not in record.digest + record.salt
    assert len({make_key("acme", "paid", NOW)[1].salt for _ in range(10)}) == 10


def test_a_key_lets_in_its_tenant_and_tier() -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = ring_of(record)
    assert ring.identify(key.encode()) == Identity("acme", "paid", record.id)


def test_a_key_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = ring_of(record)
    first = ring.identify(key.encode())
    monkeypatch.setattr(keys_module, "_digest", lambda salt, secret: pytest.fail("hashed again"))
    assert ring.identify(key.encode()) is first


def test_unknown_wrong_revoked_and_expired_keys_are_refused_with_the_same_words_after_the_same_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, record = make_key("acme", "paid", NOW)
    revoked_key, revoked = make_key("acme", "paid", NOW)
    expired_key, expired = make_key("acme", "paid", NOW - 10, 10.0)
    ring = ring_of(record, replace(revoked, revoked=NOW - 1), expired)
    bad = [
        make_key("acme", "paid", NOW)[0],
        f"pk_{record.id}_{'x' * 43}",
        key[:-1] + ("0" if key[-1] != "0" else "1"),
        revoked_key,
        expired_key,
        key.replace("pk_", "qk_"),
        key.replace(f"_{key[-43:]}", f"-{key[-43:]}"),
    ]
    hashed: list[bytes] = []
    digest = keys_module._digest

    def counted(salt: bytes, secret: bytes) -> bytes:
        hashed.append(salt)
        return digest(salt, secret)

    monkeypatch.setattr(keys_module, "_digest", counted)
    said = set()
    for each in bad:
        with pytest.raises(Unauthorized) as refused:
            ring.identify(each.encode())
        said.add(refused.value.message)
    assert said == {"the API key is not valid"}
    assert len(hashed) == len(bad)


@pytest.mark.parametrize("text", [b"", b"pk_", b"pk__", b"pk_" + b"x" * 5000, b"pk_\xff_\x00", b"\xff" * 59])
def test_what_is_not_even_a_key_is_refused(text: bytes) -> None:
    with pytest.raises(Unauthorized, match="the API key is not valid"):
        ring_of(make_key("acme", "paid", NOW)[1]).identify(text)


def test_a_revoked_key_is_refused_at_once_and_others_stay_remembered() -> None:
    key, record = make_key("acme", "paid", NOW)
    other_key, other = make_key("other", "free", NOW)
    ring = ring_of(record, other)
    ring.identify(key.encode())
    kept = ring.identify(other_key.encode())
    ring.replace([replace(record, revoked=NOW), other])
    with pytest.raises(Unauthorized):
        ring.identify(key.encode())
    assert ring.identify(other_key.encode()) is kept


def test_a_key_that_is_gone_from_the_store_is_refused_and_one_whose_tier_changed_has_the_new_one() -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = ring_of(record)
    ring.identify(key.encode())
    ring.replace([replace(record, tier="free")])
    assert ring.identify(key.encode()).tier == "free"
    ring.replace([])
    with pytest.raises(Unauthorized):
        ring.identify(key.encode())


def test_a_store_that_forgets_a_revocation_does_not_bring_the_key_back() -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = ring_of(replace(record, revoked=NOW))
    ring.replace([record])
    with pytest.raises(Unauthorized):
        ring.identify(key.encode())


def test_a_key_expires_though_it_is_remembered() -> None:
    clock = Clock()
    key, record = make_key("acme", "paid", NOW, 60.0)
    ring = ring_of(record, clock=clock)
    clock.now = NOW + 59.9
    ring.identify(key.encode())
    clock.now = NOW + 60
    with pytest.raises(Unauthorized):
        ring.identify(key.encode())


def test_a_key_of_a_tier_that_this_server_does_not_have_is_forbidden() -> None:
    key, record = make_key("acme", "gold", NOW)
    with pytest.raises(Forbidden, match="gold"):
        ring_of(record).identify(key.encode())


@pytest.mark.parametrize("tenant", ["", " acme", "a\nb", "x" * 129, "\ud800"])
def test_a_tenant_needs_a_name_that_can_be_written_anywhere(tenant: str) -> None:
    with pytest.raises(UserMistake):
        make_key(tenant, "paid", NOW)


def test_what_is_remembered_is_bounded_in_number_and_in_bytes_and_the_eldest_goes_first() -> None:
    someone = Identity("acme", "paid", "k")
    few = Remembered(most=2)
    for name in (b"a", b"b"):
        few.keep(name, someone)
    few.keep(b"c", someone)
    assert [few.find(name, Clock()) is not None for name in (b"a", b"b", b"c")] == [False, True, True]
    small = Remembered(most_bytes=100)
    for number in range(20):
        small.keep(b"%040d" % number, someone)
        small.keep(b"%040d" % number, someone)
    assert len(small) == 2


# ---- headers ---------------------------------------------------------------------------------------------


def test_keys_and_tokens_are_taken_from_the_headers_that_carry_them() -> None:
    key, record = make_key("acme", "paid", NOW)
    text = key.encode()
    who = Authenticator(ring_of(record), static_verifier(Clock()))
    for headers in (
        {b"authorization": b"Bearer " + text},
        {b"authorization": b"bearer  " + text},
        {b"authorization": b"BEARER " + text + b" "},
        {b"x-api-key": text},
    ):
        assert who.identify(headers).key_id == record.id
    assert who.identify({b"authorization": b"Bearer " + sign("RS256", "r0")}).key_id == "jwt:r0"


def test_only_a_credential_that_was_verified_is_recalled_and_only_while_it_is_good() -> None:
    clock = Clock()
    key, record = make_key("acme", "paid", NOW)
    short, expiring = make_key("acme", "paid", NOW, lifetime=60.0)
    ring = KeyRing(TIERS, clock)
    ring.replace([record, expiring])
    who = Authenticator(ring, static_verifier(clock))
    bearers = [b"Bearer " + each for each in (key.encode(), short.encode(), sign("RS256", "r0"))]
    assert [who.recall(bearer) for bearer in bearers] == [None] * 3
    found = [who.identify({b"authorization": bearer}) for bearer in bearers]
    assert [who.recall(bearer) for bearer in bearers] == found
    assert who.recall(bearers[0] + b"x") is None
    assert Authenticator(ring).recall(bearers[2]) is None
    clock.now = NOW + 3600
    assert [who.recall(bearer) for bearer in bearers] == [found[0], None, None]
    ring.replace([replace(record, revoked=NOW)])
    assert who.recall(bearers[0]) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b""},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Basic cGs6cGs="},
        {b"authorization": b"Bearer pk_a, Bearer pk_b"},
        {b"x-api-key": b""},
        {b"x-api-key": b"pk_a, pk_b"},
        {b"x-tenant": b"acme", b"x-tier": b"enterprise"},
    ],
)
def test_headers_that_prove_nothing_are_refused(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Unauthorized):
        Authenticator(ring_of(), static_verifier(Clock())).identify(headers)


def test_two_credentials_at_once_are_refused_even_if_both_are_good() -> None:
    key, record = make_key("acme", "paid", NOW)
    headers = {b"authorization": b"Bearer " + key.encode(), b"x-api-key": key.encode()}
    with pytest.raises(Unauthorized, match="not both"):
        Authenticator(ring_of(record)).identify(headers)


def test_a_token_is_not_taken_as_an_api_key_nor_where_only_keys_are_known() -> None:
    token = sign("RS256", "r0")
    with pytest.raises(Unauthorized):
        Authenticator(ring_of(), static_verifier(Clock())).identify({b"x-api-key": token})
    with pytest.raises(Unauthorized, match="pk_"):
        Authenticator(ring_of()).identify({b"authorization": b"Bearer " + token})
    key, _ = make_key("acme", "paid", NOW)
    with pytest.raises(Unauthorized, match="send a token"):
        Authenticator(tokens=static_verifier(Clock())).identify({b"x-api-key": key.encode()})
