"""Webhooks in virtual time: what is promised, tried again, signed, bounded and given up."""

import asyncio
import hmac
import logging
from base64 import b64decode, b64encode
from itertools import pairwise
from typing import Any

import pytest
from webhook_kit import Target, Work, tell

from penstock.errors import Forbidden, NotFound, Overloaded, OverQuota, StoreDown, UserMistake
from penstock.ports.webhooks import Posted, Undelivered
from penstock.runtime import webhooks as module
from penstock.runtime.webhooks import AT_ONCE, AT_ONCE_TO_ONE, Webhooks, key_of, signed
from penstock.testing import run_virtual

URL = "https://hooks.example/done?for=me"
ALLOWED = ("https://hooks.example", "http://other.example:8080")


def webhooks(target: Target, **more: Any) -> Webhooks:
    given = {"attempts": 4, "base": 10.0, "longest": 60.0, "most": 10, "share": 0.5, **more}
    return Webhooks(target, ALLOWED, "secret", lambda: 1_700_000_000.0, **given)


async def ended(hooks: Webhooks, *names: str) -> None:
    for name in names or ("t1",):
        work = Work(name)
        work.end()
        hooks.promise(URL, work, "acme", tell)
    await asyncio.sleep(0)


def test_a_task_that_is_over_is_told_once() -> None:
    async def scene() -> None:
        target, work = Target(), Work()
        hooks = webhooks(target)
        hooks.check(URL, "acme")
        hooks.promise(URL, work, "acme", tell)
        await asyncio.sleep(100)
        assert target.messages == []
        work.end()
        await asyncio.sleep(1000)
        [(_, url, fields, body)] = target.messages
        assert (url, body, fields["webhook-id"]) == (URL, b'{"task_id":"t1","output":"out"}', "t1")
        assert (hooks._promised.total(), hooks._bytes, hooks._under_way) == (0, 0, set())
        assert (hooks._early, hooks._untried, hooks._sending) == ({}, set(), set())
        assert hooks._turns.is_quiet
        await hooks.close()
        assert target.closed

    run_virtual(scene())


def test_it_is_signed_as_standard_webhooks_are() -> None:
    """https://github.com/standard-webhooks/standard-webhooks: the id, the time and the body, joined by dots."""
    key = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    fields = signed(key_of(secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert fields["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    plain = signed(key_of("a secret"), "a", 1, b"x")["webhook-signature"]
    assert plain == "v1," + b64encode(hmac.new(b"a secret", b"a.1.x", "sha256").digest()).decode()
    assert key == key_of(secret)
    with pytest.raises(UserMistake, match=r"webhooks\.secret"):
        key_of("whsec_no base64")


def test_what_is_not_taken_is_tried_again_after_longer_and_longer(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        target = Target([Posted(500), Undelivered("no answer in time"), Posted(302), Posted(404)])
        await ended(webhooks(target))
        await asyncio.sleep(10_000)
        times = [each[0] for each in target.messages]
        first, second, third = (later - earlier for earlier, later in pairwise(times))
        assert 5.0 <= first <= 10.0 < second <= 20.0 < third <= 40.0
        assert len({each[2]["webhook-id"] for each in target.messages}) == 1

    with caplog.at_level(logging.WARNING):
        run_virtual(scene())
    [record] = caplog.records
    assert (record.message, vars(record)["to"], vars(record)["error"]) == (
        "a webhook was given up", "https://hooks.example", "it answered 404",
    )  # fmt: skip
    assert "for=me" not in caplog.text


@pytest.mark.parametrize(
    ("answers", "attempts"),
    [
        ([Posted(410)], 1),
        ([Posted(204)], 1),
        ([Posted(503), Posted(410)], 2),
        ([Posted(503), Posted(201)], 2),
    ],
)
def test_it_ends_when_it_is_taken_or_nobody_wants_it_any_more(
    answers: list[Posted | Exception], attempts: int
) -> None:
    async def scene() -> None:
        target = Target(answers)
        await ended(webhooks(target))
        await asyncio.sleep(10_000)
        assert len(target.messages) == attempts

    run_virtual(scene())


def test_who_says_when_to_come_again_is_left_alone_till_then_within_bounds() -> None:
    async def scene() -> None:
        target = Target([Posted(429, 50.0), Posted(503, 1e9)])
        await ended(webhooks(target))
        await asyncio.sleep(10_000)
        times = [each[0] for each in target.messages]
        assert (times[1] - times[0], times[2] - times[1]) == (50.0, 60.0)

    run_virtual(scene())


def test_a_task_that_is_gone_is_told_of_no_more_and_a_store_that_is_away_is_waited_for() -> None:
    async def scene() -> None:
        target = Target()
        hooks = webhooks(target)
        hooks.promise(URL, Work("gone", NotFound("gone")), "acme", tell)
        work = Work("there", StoreDown("away"), StoreDown("away"))
        hooks.promise(URL, work, "acme", tell)
        await asyncio.sleep(10)
        work.end()
        await asyncio.sleep(10)
        assert [each[2]["webhook-id"] for each in target.messages] == ["there"]

    run_virtual(scene())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://elsewhere.example/x", "https://elsewhere.example is not in webhooks.allow"),
        ("https://hooks.example:444/x", "is not in webhooks.allow"),
        ("http://hooks.example/x", "is not in webhooks.allow"),
        ("https://hooks.example.evil.example/x", "is not in webhooks.allow"),
        ("https://hooks.example@evil.example/x", "hold no user"),
        ("https://evil.example:x@hooks.example/x", "hold no user"),
        ("ftp://hooks.example/x", "https://"),
        ("hooks.example", "https://"),
        ("", "https://"),
        ("https://[::1/x", "https://"),
        ("https://hooks.example/\u00e9", "visible ASCII"),
        ("https://hooks.example/a b", "visible ASCII"),
        ("https://hooks.example/" + "a" * 3000, "visible ASCII"),
    ],
)
def test_what_may_not_be_called_is_refused_in_words(url: str, words: str) -> None:
    async def scene() -> None:
        with pytest.raises(Forbidden) as refused:
            webhooks(Target()).check(url, "acme")
        assert "'callback_url'" in refused.value.message
        assert words in refused.value.message

    run_virtual(scene())


def test_whatever_the_form_of_an_address_its_origin_counts() -> None:
    async def scene() -> None:
        hooks = webhooks(Target())
        for url in ("https://HOOKS.example:443", "https://hooks.example?x", "HTTP://other.example:8080/a#b"):
            hooks.check(url, "acme")
        anything = Webhooks(
            Target(), ["*"], "s", lambda: 0.0, attempts=1, base=1.0, longest=1.0, most=1, share=1.0
        )
        anything.check("http://anybody.example", "acme")
        with pytest.raises(Forbidden, match="private address"):
            anything.check("http://10.0.0.1/x", "acme")

    run_virtual(scene())


def test_so_much_is_promised_and_no_more_and_no_tenant_takes_all_of_it() -> None:
    async def scene() -> None:
        hooks = webhooks(Target(), most=4, share=0.5)
        for tenant in ("acme", "acme", "beta"):
            hooks.promise(URL, Work(), tenant, tell)
        with pytest.raises(OverQuota):
            hooks.check(URL, "acme")
        hooks.check(URL, "beta")
        hooks.promise(URL, Work(), "beta", tell)
        with pytest.raises(Overloaded):
            hooks.check(URL, "gamma")
        await hooks.close()

    run_virtual(scene())


def test_one_slow_address_does_not_hold_up_the_others() -> None:
    async def scene() -> None:
        target = Target(takes=10.0)
        hooks = webhooks(target, most=1000, share=1.0)
        await ended(hooks, *(f"slow-{number}" for number in range(100)))
        await asyncio.sleep(1)
        assert target.at_once == AT_ONCE_TO_ONE
        work = Work("other")
        work.end()
        hooks.promise("http://other.example:8080/x", work, "acme", tell)
        await asyncio.sleep(1)
        assert "other" in [each[2]["webhook-id"] for each in target.messages]
        await asyncio.sleep(1000)
        assert len(target.messages) == 101
        assert target.most <= AT_ONCE

    run_virtual(scene())


def test_beyond_the_memory_for_what_waits_outputs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 50)

    async def scene() -> None:
        target = Target(takes=10.0)
        await ended(webhooks(target), "a", "b")
        await asyncio.sleep(1)
        assert [b"output" in each[3] for each in target.messages] == [True, False]

    run_virtual(scene())


def test_at_the_end_what_is_on_the_wire_has_a_moment_and_the_rest_is_given_up() -> None:
    async def scene() -> None:
        target = Target([Posted(200), Posted(500)], takes=1.0)
        hooks = webhooks(target)
        hooks.promise(URL, Work("waits"), "acme", tell)
        await ended(hooks, "first", "second")
        await asyncio.sleep(0.5)
        began = asyncio.get_running_loop().time()
        await hooks.close()
        assert asyncio.get_running_loop().time() - began <= 2.0
        assert (len(target.messages), target.at_once, target.closed) == (2, 0, True)

    run_virtual(scene())
