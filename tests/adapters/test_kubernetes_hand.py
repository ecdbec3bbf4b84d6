"""The hand of the autoscaler that sets a Deployment's replicas, against an HTTPS server that does as the Kubernetes
API does with the scale subresource."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from certificates import Authority
from kubernetes_api import Api, account_of, serving
from penstock.adapters.scaling.kubernetes import Kubernetes
from penstock.errors import UserMistake
from penstock.ports.scaling import NotScaled


def run(tmp_path: Path, scene: Callable[[Api, Kubernetes], Awaitable[None]], api: Api | None = None) -> None:
    async def body() -> None:
        async with serving(api or Api(), tmp_path) as (there, environ):
            hand = Kubernetes("workers", "", tmp_path, 5.0, environ)
            try:
                await scene(there, hand)
            finally:
                await hand.close()

    asyncio.run(body())


def test_replicas_are_read_and_set_in_the_pods_own_namespace(tmp_path: Path) -> None:
    async def scene(api: Api, hand: Kubernetes) -> None:
        assert await hand.present() == 2
        await hand.scale(5)
        assert api.replicas == 5
        assert await hand.present() == 5
        await hand.scale(0)
        assert await hand.present() == 0  # the API leaves a 0 out

    run(tmp_path, scene)


def test_a_token_that_was_renewed_is_used_from_then_on(tmp_path: Path) -> None:
    async def scene(api: Api, hand: Kubernetes) -> None:
        await hand.scale(3)
        api.token = "second"
        with pytest.raises(NotScaled, match="401: the API does not take the token"):
            await hand.scale(4)
        (tmp_path / "token").write_text("second\n")
        await hand.scale(4)
        assert api.replicas == 4

    run(tmp_path, scene)


@pytest.mark.parametrize(
    ("api", "says"),
    [
        (Api(status=403), "may not: it needs get and patch on deployments/scale"),
        (Api(name="others"), "404: there is no such Deployment"),
        (Api(status=500, body="etcd is away"), "500: etcd is away"),
        (Api(status=200, body="<html>"), "the Kubernetes API"),
        (Api(status=200, body='{"spec": null}'), "is no scale"),
        (Api(status=302), "302"),
    ],
)
def test_what_the_api_refuses_is_said_in_one_line(tmp_path: Path, api: Api, says: str) -> None:
    async def scene(there: Api, hand: Kubernetes) -> None:
        with pytest.raises(NotScaled, match=says) as refused:
            await hand.present()
        assert "\n" not in str(refused.value)
        assert "first" not in str(refused.value)  # the token

    run(tmp_path, scene, api)


def test_an_api_of_another_authority_is_not_spoken_to(tmp_path: Path) -> None:
    async def body() -> None:
        api = Api()
        async with serving(api, tmp_path) as (_, environ):
            stranger = tmp_path / "stranger"
            stranger.mkdir()
            account_of(stranger, Authority())
            hand = Kubernetes("workers", "", stranger, 5.0, environ)
            with pytest.raises(NotScaled, match="certificate"):
                await hand.scale(3)
            await hand.close()
        assert api.asked == []

    asyncio.run(body())


def test_an_api_that_is_away_or_silent_is_no_hang(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(Api(), tmp_path) as (_, environ):
            pass
        hand = Kubernetes("workers", "there", tmp_path, 5.0, environ)
        with pytest.raises(NotScaled, match="the Kubernetes API"):
            await hand.scale(3)
        await hand.close()
        async with serving(Api(silent=True), tmp_path) as (_, environ):
            hand = Kubernetes("workers", "there", tmp_path, 0.1, environ)
            with pytest.raises(NotScaled, match="did not answer within"):
                await hand.scale(3)
            await hand.close()

    asyncio.run(body())


def test_outside_a_cluster_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="KUBERNETES_SERVICE_HOST"):
        Kubernetes("workers", "", tmp_path, 5.0, {})
    pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
    with pytest.raises(UserMistake, match=r"autoscaler\.namespace"):
        Kubernetes("workers", "", tmp_path, 5.0, pod)
    with pytest.raises(UserMistake, match="authority cannot be read"):
        Kubernetes("workers", "there", tmp_path, 5.0, pod)
