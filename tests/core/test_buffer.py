"""Who goes first."""

from collections import Counter

from core_kit import ask, buffer_with, held
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.buffer import Buffer, TierRules
from penstock.core.ordered import Ordered
from penstock.core.queued import Queued
from penstock.core.room import Room
from penstock.core.tier import SLACK

NO_LIMIT = float("inf")


def take(buffer: Buffer, count: int, now: float = 0.0, max_cost: float = NO_LIMIT) -> list[Queued]:
    return buffer.take(count, None if max_cost == NO_LIMIT else Room(max_cost), now)


def let_pass(buffer: Buffer, count: int) -> None:
    """So many come and leave again."""
    for _ in range(count):
        request = ask(tenant="passing")
        buffer.push(request)
        buffer.discard(request)


def test_one_tenant_s_requests_go_earliest_deadline_first() -> None:
    buffer, _ = buffer_with()
    late, early, middle = ask(deadline=9), ask(deadline=1), ask(deadline=5)
    for request in (late, early, middle):
        buffer.push(request)
    assert take(buffer, 3) == [early, middle, late]


def test_equal_deadlines_keep_the_order_of_arrival() -> None:
    buffer, _ = buffer_with()
    requests = [ask() for _ in range(20)]
    for request in requests:
        buffer.push(request)
    assert take(buffer, 20) == requests


def test_strict_tiers_are_served_in_their_order_whatever_the_deadlines() -> None:
    buffer, _ = buffer_with(TierRules(strict=True))
    free, paid, best = ask(tier=2, deadline=1), ask(tier=1, deadline=5), ask(tier=0, deadline=9)
    for request in (free, paid, best):
        buffer.push(request)
    assert buffer.best_tier() == 0
    assert take(buffer, 2) == [best, paid]
    assert buffer.best_tier() == 2
    assert take(buffer, 1) == [free]
    assert buffer.best_tier() == 3


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    weights=st.lists(st.floats(0.5, 20.0), min_size=2, max_size=4),
    batch=st.integers(1, 40),
    costs=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=4, max_size=4),
)
def test_under_sustained_overload_every_tier_gets_its_share_and_none_starves(
    weights: list[float], batch: int, costs: list[float]
) -> None:
    buffer, _ = buffer_with(TierRules(weights=tuple(weights), ageing=1e9))
    served = [0.0] * len(weights)
    for _ in range(2000 // batch):
        for tier in range(len(weights)):  # always more than can be served waits in each
            while buffer._depth.by_tier[tier] < batch:
                buffer.push(ask(tier=tier, cost=costs[tier]))
        for request in take(buffer, batch):
            served[request.tier] += request.cost
    total = sum(served)
    for tier, weight in enumerate(weights):
        fair = total * weight / sum(weights)
        assert abs(served[tier] - fair) <= 0.02 * fair + 4 * max(costs)


def test_ageing_lets_a_tier_whose_requests_are_old_catch_up() -> None:
    buffer, _ = buffer_with(TierRules(weights=(8.0, 1.0), ageing=1.0))
    for _ in range(200):
        buffer.push(ask(now=10.0, tier=0))
        buffer.push(ask(now=0.0, tier=1))  # has waited ten times the ageing: its weight is 11
    tiers = Counter(request.tier for request in take(buffer, 190, now=10.0))
    assert tiers[1] > tiers[0]


def test_a_tier_that_was_away_has_saved_up_no_claim() -> None:
    buffer, _ = buffer_with(TierRules(weights=(1.0, 1.0)))
    for _ in range(1000):
        buffer.push(ask(tier=0))
    take(buffer, 500)
    for _ in range(500):
        buffer.push(ask(tier=1))
    tiers = Counter(request.tier for request in take(buffer, 100))
    assert abs(tiers[0] - tiers[1]) <= 2


def test_a_burst_of_one_tenant_does_not_push_out_another_s_trickle() -> None:
    buffer, _ = buffer_with()
    for _ in range(5000):
        buffer.push(ask(tenant="burst"))
    for _ in range(100):
        trickle = ask(tenant="trickle")
        buffer.push(trickle)
        assert trickle in take(buffer, 3)


def test_a_tenant_that_comes_back_with_one_request_at_a_time_gets_no_more_than_its_turn() -> None:
    buffer, _ = buffer_with()
    for tenant in "abc":
        for _ in range(1000):
            buffer.push(ask(tenant=tenant))
    served: Counter[str] = Counter()
    buffer.push(ask(tenant="returns"))
    for _ in range(800):
        (request,) = take(buffer, 1)
        served[request.tenant] += 1
        if request.tenant == "returns":
            buffer.push(ask(tenant="returns"))
    assert all(abs(served[tenant] - 200) <= 2 for tenant in (*"abc", "returns"))


def test_tenants_share_by_cost_not_by_count() -> None:
    buffer, _ = buffer_with()
    for _ in range(400):
        buffer.push(ask(tenant="large", cost=9.0))
        buffer.push(ask(tenant="small", cost=1.0))
    served = Counter(request.tenant for request in take(buffer, 100))
    assert served["small"] == 90


def test_requests_that_cost_nothing_still_take_turns() -> None:
    buffer, _ = buffer_with()
    for tenant in ("empty", "other"):
        for _ in range(50):
            buffer.push(ask(tenant=tenant, cost=0.0 if tenant == "empty" else 1.0))
    served = Counter(request.tenant for request in take(buffer, 50))
    assert served["other"] == 25


def test_a_batch_ends_before_the_request_that_would_exceed_the_cost() -> None:
    buffer, _ = buffer_with()
    costs = [4.0, 4.0, 1.0, 8.0]
    for cost in costs:
        buffer.push(ask(cost=cost))
    assert [request.cost for request in take(buffer, 9, max_cost=8.5)] == [4.0, 4.0]
    assert [request.cost for request in take(buffer, 9, max_cost=8.5)] == [1.0]
    assert [request.cost for request in take(buffer, 9, max_cost=8.5)] == [8.0]
    assert buffer.cost == 0.0


def test_a_request_that_does_not_fit_any_batch_goes_alone() -> None:
    buffer, _ = buffer_with()
    giant, small = ask(cost=50.0, deadline=1), ask(cost=1.0, deadline=2)
    buffer.push(giant)
    buffer.push(small)
    assert take(buffer, 9, max_cost=10.0) == [giant]


def test_the_most_urgent_depends_on_how_long_a_batch_takes() -> None:
    buffer, _ = buffer_with()
    must_start, must_end = ask(expires=2.0, deadline=10.0), ask(expires=3.0, deadline=3.0)
    buffer.push(must_start)
    buffer.push(must_end)
    assert buffer.most_urgent(horizon=0.5) is must_start
    assert buffer.most_urgent(horizon=1.5) is must_end


def test_the_oldest_and_the_most_urgent_are_never_ones_that_left() -> None:
    buffer, _ = buffer_with()
    gone, stays = ask(expires=1, deadline=1), ask(now=1.0, expires=5, deadline=5)
    buffer.push(gone)
    buffer.push(stays)
    assert buffer.oldest() is gone
    buffer.discard(gone)
    assert buffer.oldest() is stays
    assert buffer.most_urgent(0.0) is stays
    buffer.discard(stays)
    assert buffer.oldest() is None
    assert buffer.most_urgent(0.0) is None


def test_depth_counts_requests_tiers_and_bytes() -> None:
    buffer, depth = buffer_with()
    long, short = ask(tier=1, text=b'"long"'), ask(tier=2, text=b'""')
    buffer.push(long)
    buffer.push(short)
    assert (depth.total, depth.by_tier, depth.bytes) == (2, [0, 1, 1], 8)
    buffer.discard(long)
    assert (depth.total, depth.by_tier, depth.bytes) == (1, [0, 0, 1], 2)


def test_tenants_whose_requests_all_left_are_forgotten() -> None:
    buffer, _ = buffer_with()
    gone = [ask(tenant=f"t{n}") for n in range(10)]
    stays = ask(tenant="stays")
    for request in (*gone, stays):
        buffer.push(request)
    for request in gone:
        buffer.discard(request)
    assert take(buffer, 1) == [stays]
    let_pass(buffer, SLACK)
    assert held(buffer) <= SLACK
    assert len(buffer._tiers[0].tenants) <= 1


def test_what_a_tenant_has_had_served_is_not_kept_while_it_goes_on_asking() -> None:
    buffer, _ = buffer_with()
    for n in range(20 * SLACK):
        buffer.push(ask(tenant="same", deadline=1000.0 + n))
        if buffer.waiting == 64:
            take(buffer, 32)
    (tenant,) = buffer._tiers[0].tenants.values()
    assert isinstance(tenant, Ordered)
    assert len(tenant) <= buffer.waiting + 1
    assert held(buffer) <= 4 * 64 + SLACK


def test_tens_of_thousands_may_wait_and_leave_in_any_order() -> None:
    buffer, depth = buffer_with()
    requests = [
        ask(tier=n % 3, tenant=str(n % 997), deadline=1000 + n * 7919 % 10_007) for n in range(30_000)
    ]
    for request in requests:
        buffer.push(request)
    assert depth.total == 30_000
    for request in requests[::2]:
        buffer.discard(request)
    assert held(buffer) <= 4 * buffer.waiting + SLACK
    taken = []
    while buffer.waiting:
        taken += take(buffer, 1000)
        assert held(buffer) <= 4 * buffer.waiting + SLACK
    let_pass(buffer, SLACK)
    assert held(buffer) <= SLACK
    assert sorted(request.key for request in taken) == sorted(request.key for request in requests[1::2])


def test_the_dead_do_not_pile_up_behind_a_request_that_waits_long() -> None:
    buffer, _ = buffer_with(TierRules(strict=True))
    buffer.push(ask(tier=2, expires=1e6, deadline=1e6))  # the oldest of all, and never served
    for n in range(2000):
        buffer.push(ask(now=n, tier=0, expires=1, deadline=1))
        assert len(take(buffer, 1, now=n)) == 1
        assert held(buffer) <= 4 * buffer.waiting + SLACK


def test_the_dead_do_not_pile_up_behind_a_tenant_s_first_deadline() -> None:
    buffer, _ = buffer_with()
    buffer.push(ask(expires=1e5, deadline=1e5))
    for _ in range(2000):
        leaves = ask(expires=1, deadline=1e6)  # its place is behind the one that stays
        buffer.push(leaves)
        buffer.discard(leaves)
        assert buffer.most_urgent(0.0) is buffer.oldest()
        assert held(buffer) <= 4 * buffer.waiting + SLACK


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["push"] * 4 + ["take", "discard"]),
            st.integers(0, 2),
            st.sampled_from("abc"),
            st.sampled_from([(2.0, 4.0), (2.0, 4.0), (2.0, 4.0), (0.5, 9.0), (5.0, 5.0)]),
            st.integers(1, 6),
        ),
        max_size=80,
    ),
    horizon=st.sampled_from([0.0, 1.0, 3.5]),
)
def test_the_oldest_and_the_most_urgent_are_found_whatever_came_and_went(
    steps: list[tuple[str, int, str, tuple[float, float], int]], horizon: float
) -> None:
    buffer, depth = buffer_with()
    there: dict[str, Queued] = {}
    for now, (kind, tier, tenant, (expires, deadline), count) in enumerate(steps):
        if kind == "push":
            request = ask(now=now, tier=tier, tenant=tenant, expires=expires, deadline=deadline)
            buffer.push(request)
            there[request.key] = request
        elif there and kind == "discard":
            buffer.discard(there.pop(sorted(there)[count % len(there)]))
        elif there:
            for request in take(buffer, count, now):
                del there[request.key]
        assert buffer.waiting == depth.total == len(there)
        assert sum(depth.by_tier) == len(there)
        oldest, urgent = buffer.oldest(), buffer.most_urgent(horizon)
        if not there:
            assert oldest is urgent is None
            continue
        assert oldest is not None
        assert urgent is not None
        assert oldest.arrival == min(request.arrival for request in there.values())
        first = min(min(request.expires, request.deadline - horizon) for request in there.values())
        assert min(urgent.expires, urgent.deadline - horizon) == first


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    batch=st.integers(1, 7),
    backlogs=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    cost=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_tenants_with_one_request_or_several_are_served_in_rounds(
    batch: int, backlogs: list[int], cost: float
) -> None:
    buffer, _ = buffer_with()
    for tenant, number in enumerate(backlogs):
        for _ in range(number):
            buffer.push(ask(tenant=str(tenant), cost=cost))
    order = []
    while buffer.waiting:
        order += [int(request.tenant) for request in take(buffer, batch)]
    rounds = [
        [tenant for tenant, number in enumerate(backlogs) if number > turn] for turn in range(max(backlogs))
    ]
    assert order == [tenant for each in rounds for tenant in each]


def test_those_who_leave_in_order_are_forgotten_too() -> None:
    buffer, _ = buffer_with()
    requests = [ask(tenant=tenant) for n in range(4 * SLACK) for tenant in ("one", f"other{n}")]
    for request in requests:
        buffer.push(request)
    for request in requests[1:-1]:
        buffer.discard(request)
        assert held(buffer) <= 4 * buffer.waiting + 2 * SLACK
    assert take(buffer, 9) == [requests[0], requests[-1]]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    age=st.sampled_from([0.0, 0.3, 5.0, 20.0]),
    cost=st.sampled_from([0.0, 0.01, 1.0, 40.0]),
    batch=st.sampled_from([1, 7, 32, 64]),
)
def test_every_batch_holds_of_each_tier_its_part_however_old_and_dear_they_are(
    age: float, cost: float, batch: int
) -> None:
    buffer, depth = buffer_with(TierRules(weights=(8.0, 4.0, 1.0)))
    served: Counter[int] = Counter()
    now = 100.0
    for number in range(1, 40):
        for tier in range(3):
            while depth.by_tier[tier] < 2 * batch:
                buffer.push(ask(now=now - age, tier=tier, tenant=str(depth.total), cost=cost))
        served.update(request.tier for request in take(buffer, batch, now))
        for tier, weight in enumerate((8, 4, 1)):
            assert abs(served[tier] - number * batch * weight / 13) <= 3.0


def test_a_cheap_request_before_each_dear_one_buys_nothing() -> None:
    buffer, _ = buffer_with()

    def come(tenant: str) -> None:
        buffer.push(ask(tenant=tenant, cost=100.0))

    served: Counter[str] = Counter()
    come("honest")
    buffer.push(ask(tenant="cheat", cost=0.5))
    come("cheat")
    for _ in range(2000):
        (request,) = take(buffer, 1)
        served[request.tenant] += int(request.cost)
        if request.cost < 1.0:
            continue
        if request.tenant == "cheat":
            buffer.push(ask(tenant="cheat", cost=0.5))
        come(request.tenant)
    assert served["honest"] >= 0.99 * served["cheat"]


def test_nor_does_one_that_leaves_again() -> None:
    buffer, _ = buffer_with()
    served: Counter[str] = Counter()
    buffer.push(ask(tenant="honest", cost=100.0))
    for _ in range(500):
        cheap = ask(tenant="cheat", cost=0.5)
        buffer.push(cheap)
        dear = ask(tenant="cheat", cost=100.0)
        buffer.push(dear)
        buffer.discard(cheap)
        while dear.waiting:
            (request,) = take(buffer, 1)
            served[request.tenant] += 1
            if request.tenant == "honest":
                buffer.push(ask(tenant="honest", cost=100.0))
    assert served["honest"] >= 0.99 * served["cheat"]


def test_what_does_not_fit_keeps_its_turn() -> None:
    buffer, _ = buffer_with(TierRules(strict=True))
    dear = [ask(tier=1, tenant="dear", cost=10.0) for _ in range(2)]
    for request in dear:
        buffer.push(request)
    for _ in range(5):  # it is what is left, and too much, each time
        buffer.push(ask(tier=0))
        assert [request.tier for request in take(buffer, 9, max_cost=10.0)] == [0]
    buffer.push(ask(tier=1, tenant="other", cost=10.0))
    assert take(buffer, 1) == [dear[0]]
