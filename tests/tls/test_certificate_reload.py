"""Certificates that change while the server runs: on SIGHUP, by themselves, and not at all when they are broken."""

import signal
from pathlib import Path

from tls_kit import connected, encrypted, serial, serial_of, shown_serial

from certificates import Authority
from server import eventually
from wire import post

ANSWERED = b"HTTP/1.1 200 OK"


def test_new_certificates_are_shown_to_new_connections_and_old_ones_go_on(tmp_path: Path) -> None:
    authority = Authority()
    pair, second, third = (authority.issue(tmp_path, name) for name in ("server", "second", "third"))
    patient = "[limits]\nheader_timeout = '60s'"  # or who came early and says nothing is let go meanwhile
    with encrypted(pair, config=patient) as server, connected(server, authority.trusting()) as early:
        first = serial(server, authority)
        assert first == serial_of(pair.certificate)

        pair.replace(second)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: serial(server, authority) == serial_of(second.certificate))

        pair.replace(third)  # and nobody says so
        eventually(lambda: serial(server, authority) == serial_of(third.certificate))
        assert server.health()["tls"]["failed_certificate_loads"] == 0

        early.sendall(post(b'{"input": "hello"}'))
        assert early.recv(1000).startswith(ANSWERED)
        assert shown_serial(early) == first


def test_broken_files_change_nothing_and_are_told_once(tmp_path: Path) -> None:
    authority = Authority()
    pair, second = authority.issue(tmp_path, "server"), authority.issue(tmp_path, "second")
    with encrypted(pair) as server:
        first = serial(server, authority)
        pair.certificate.write_text("not a certificate")
        eventually(lambda: server.health()["tls"]["failed_certificate_loads"] == 1)
        assert serial(server, authority) == first

        pair.replace(second)
        eventually(lambda: serial(server, authority) == serial_of(second.certificate))
        assert server.stderr().count("certificates stay as they were") == 1


def test_an_authority_that_no_longer_signs_for_clients_is_forgotten(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    pair = old.issue(tmp_path, "server")
    left_over, fresh = old.issue(tmp_path, "left-over"), new.issue(tmp_path, "fresh")
    trusted = old.save(tmp_path, "clients")
    with encrypted(pair, tls=f"client_ca = '{trusted}'") as server:

        def served(client: object) -> bool:
            server.tls = old.trusting(client)  # type: ignore[arg-type]
            try:
                return server.get("/docs").status == 200
            except OSError:
                return False

        assert served(left_over)
        assert not served(fresh)
        new.save(tmp_path, "clients")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: served(fresh))
        assert not served(left_over)
