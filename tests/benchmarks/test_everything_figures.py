"""What identity, quotas and the ledger cost is held against the same server without them."""

import jwt
from benchmarks.redis_throughput import Turn
from benchmarks.strangers import AUDIENCE, ISSUER, with_keys, with_tokens
from benchmarks.wrk import Load, Measurement

from benchmarks import everything_on, redis_everything
from penstock.auth.keys import KeyRing

LOAD = Load(512, 1, 4)


def turns(*rates: float) -> list[everything_on.Turn]:
    return [
        everything_on.Turn(Measurement(int(rate * 4), 4.0, 0, 0), {"penstock serve": 1.0}) for rate in rates
    ]


def test_each_way_to_say_who_asks_has_its_own_promise_and_every_answer_its_row() -> None:
    by_key, by_token = both = everything_on.pairs()
    by_key.off.turns, by_key.on.turns = turns(30_000, 20_000, 40_000), turns(27_000, 19_000, 32_000)
    by_token.off.turns, by_token.on.turns = turns(28_000), turns(21_000)
    by_key.on.answered, by_key.on.rows = 78_000, 78_000
    by_token.on.answered, by_token.on.rows = 84_000, 83_999
    keys, tokens, missing = everything_on.figure(both, LOAD, 1).checks
    assert (keys.measured, keys.holds) == (0.9, True)  # of the pairs, not of the medians
    assert (tokens.measured, tokens.holds) == (0.75, False)
    assert (missing.measured, missing.holds) == (1, False)


def test_over_redis_rate_and_commands_are_promised() -> None:
    on = Turn(Measurement(48_000, 4.0, 0, 0), {"gateway": 1.0}, {"xadd": 24_000})
    off = Turn(Measurement(64_000, 4.0, 0, 0), {"gateway": 1.0}, {"xadd": 24_000})
    rate, commands = redis_everything.figure([on], [off], LOAD).checks
    assert (rate.measured, rate.holds) == (12_000, True)
    assert (commands.measured, commands.holds) == (0.5, False)


def test_strangers_are_who_they_say_they_are() -> None:
    keys = with_keys(3)
    ring = KeyRing(("enterprise", "paid", "free"))
    ring.replace(keys.records)
    who = [ring.identify(each.removeprefix("Bearer ").encode()).tenant for each in keys.credentials]
    assert who == ["tenant-0", "tenant-1", "tenant-2"]
    tokens = with_tokens(2)
    said = [
        jwt.decode(
            each.removeprefix("Bearer "), tokens.public_key, ["RS256"], audience=AUDIENCE, issuer=ISSUER
        )
        for each in tokens.credentials
    ]
    assert [each["tenant"] for each in said] == ["tenant-0", "tenant-1"]
