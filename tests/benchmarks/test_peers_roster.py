import json

import pytest
from benchmarks.peers.__main__ import chosen, positive
from benchmarks.peers.environment import REQUIREMENTS
from benchmarks.peers.roster import ROSTER, TEXT, Peer

from penstock.errors import UserMistake


@pytest.mark.parametrize("peer", ROSTER, ids=lambda peer: peer.name)
def test_every_peer_is_sent_the_same_two_kilobytes(peer: Peer) -> None:
    assert len(TEXT) == 2048
    assert TEXT in json.dumps(json.loads(peer.payload))
    assert len(peer.payload) < 2048 + 100


@pytest.mark.parametrize("peer", ROSTER, ids=lambda peer: peer.name)
def test_every_package_of_a_rival_is_pinned(peer: Peer) -> None:
    if peer.requirements is not None:
        lines = (REQUIREMENTS / f"{peer.requirements}.txt").read_text().splitlines()
        assert all("==" in line for line in lines if not line.startswith("#"))


def test_all_peers_are_measured_unless_some_are_named() -> None:
    assert chosen("") == list(ROSTER)
    assert [peer.name for peer in chosen("mosec, granian")] == ["mosec", "granian"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserMistake, match=r"unknown peer 'moses': choose from penstock, granian, mosec"):
        chosen("moses")


def test_nothing_is_measured_less_than_once() -> None:
    with pytest.raises(ValueError, match="less than one"):
        positive("0")
