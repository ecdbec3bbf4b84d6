"""What a Redis URL means, and what is said about one that means nothing."""

import pytest

from penstock.adapters.redis.link.address import parse_address
from penstock.errors import UserMistake


def test_a_url_names_host_port_user_password_and_database() -> None:
    address = parse_address("redis://us%40er:p%3Ass@example.org:7000/3")
    assert address.nodes == (("example.org", 7000),)
    assert not address.clustered
    assert address.options == {"username": "us@er", "password": "p:ss", "db": 3}


def test_a_password_needs_no_user() -> None:
    assert parse_address("redis://:secret@h").options["password"] == "secret"
    assert parse_address("redis://:secret@h").options["username"] is None


def test_the_port_may_be_left_out_and_the_host_may_be_an_ipv6_address() -> None:
    assert parse_address("redis://h").nodes == (("h", 6379),)
    assert parse_address("redis://[::1]:7").nodes == (("::1", 7),)
    assert parse_address("redis://[::1]").nodes == (("::1", 6379),)


def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    address = parse_address("redis+cluster://u:p@a:1,b:2")
    assert address.clustered
    assert address.nodes == (("a", 1), ("b", 2))
    assert "db" not in address.options


def test_certificates_are_checked_unless_the_url_says_not_to() -> None:
    assert parse_address("rediss://h").options["ssl"] is True
    assert "ssl_cert_reqs" not in parse_address("rediss://h").options  # redis-py requires them by default
    unchecked = parse_address("rediss+cluster://h?ssl_cert_reqs=none").options
    assert (unchecked["ssl_cert_reqs"], unchecked["ssl_check_hostname"]) == ("none", False)
    assert parse_address("rediss://h?ssl_check_hostname=false").options["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "starts with redis://"),
        ("localhost:6379", "starts with redis://"),
        ("http://h", "starts with redis://"),
        ("redis://", "names one host"),
        ("redis://a:1,b:2", "names one host"),
        ("redis://h:port", "'h:port' in the Redis URL is not a host and a port"),
        ("redis://h:99999", "is not a host and a port"),
        ("redis://[::1", "cannot be read"),
        ("redis://h/zero", "is a number"),
        ("redis+cluster://h/1", "database 0 only"),
        ("redis://h?socket_timeout=3", "does not take 'socket_timeout'"),
        ("redis://h?ssl_cert_reqs=none", "start the Redis URL with rediss://"),
        ("rediss://h?ssl_cert_reqs=maybe", "required, optional or none"),
        ("rediss://h?ssl_ca_certs=/no/such/file", "There is no file /no/such/file"),
    ],
)
def test_a_url_that_cannot_be_used_is_the_users_mistake(url: str, says: str) -> None:
    with pytest.raises(UserMistake) as caught:
        parse_address(url)
    assert says in caught.value.message


def test_a_password_is_shown_nowhere() -> None:
    address = parse_address("redis://user:secret@h:1")
    assert "secret" not in address.shown + repr(address)
    with pytest.raises(UserMistake) as caught:
        parse_address("redis://user:secret@h:port")
    assert "secret" not in caught.value.message
