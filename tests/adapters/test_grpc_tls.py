"""The gRPC backend and who is at the other end: TLS, and mTLS where the endpoint asks for it."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from certificates import AuthorityInFolder, Pair
from grpc_kit import PATIENT, Service, backend_for, batch_of, serving
from penstock.adapters.backends.grpc import GrpcBackend
from penstock.adapters.backends.oip.settings import GrpcSettings
from penstock.errors import BackendUnavailable, UserMistake


def exchange(server: grpc.ServerCredentials, shape: GrpcSettings) -> list[bytes]:
    async def body() -> list[bytes]:
        async with serving(Service(), credentials=server) as url, backend_for(url, shape) as backend:
            return (await backend.run(batch_of(b'"a"'))).outputs

    return asyncio.run(body())


def proving(pair: Pair, clients: AuthorityInFolder | None = None) -> grpc.ServerCredentials:
    """A server's credentials; with `clients`, it takes only whom that authority has signed."""
    if clients is None:
        return grpc.ssl_server_credentials([pair.read()])
    roots = clients.file.read_bytes()
    return grpc.ssl_server_credentials([pair.read()], roots, require_client_auth=True)


@pytest.fixture
def authority(tmp_path: Path) -> AuthorityInFolder:
    return AuthorityInFolder(tmp_path)


def test_an_endpoint_with_a_certificate_of_the_named_authority_is_served(
    authority: AuthorityInFolder,
) -> None:
    shape = GrpcSettings(ca_file=str(authority.file))
    assert exchange(proving(authority.sign("127.0.0.1")), shape) == [b'"a"']


def test_an_endpoint_that_another_authority_vouches_for_is_not_talked_to(
    authority: AuthorityInFolder, tmp_path: Path
) -> None:
    stranger = AuthorityInFolder(tmp_path, "stranger")
    for shape in (GrpcSettings(), GrpcSettings(ca_file=str(authority.file))):
        with pytest.raises(BackendUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            exchange(proving(stranger.sign("127.0.0.1")), shape)


def test_a_certificate_for_another_name_is_taken_only_where_that_name_is_set(
    authority: AuthorityInFolder,
) -> None:
    server = proving(authority.sign("gpu-1.example"))
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        exchange(server, GrpcSettings(ca_file=str(authority.file)))
    assert exchange(server, GrpcSettings(ca_file=str(authority.file), server_name="gpu-1.example")) == [
        b'"a"'
    ]


def test_an_endpoint_that_asks_for_it_is_shown_our_certificate(
    authority: AuthorityInFolder, tmp_path: Path
) -> None:
    server = proving(authority.sign("127.0.0.1"), clients=authority)
    good, bad = authority.sign("penstock"), AuthorityInFolder(tmp_path, "stranger").sign("impostor")

    def shape(pair: Pair | None) -> GrpcSettings:
        files: dict[str, Any] = {"ca_file": str(authority.file)}
        if pair is not None:
            files |= {"client_certificate": str(pair.certificate), "client_key": str(pair.key)}
        return GrpcSettings(**files)

    assert exchange(server, shape(good)) == [b'"a"']
    both = tmp_path / "both.pem"
    both.write_bytes(good.key.read_bytes() + good.certificate.read_bytes())
    in_one = GrpcSettings(ca_file=str(authority.file), client_certificate=str(both))
    assert exchange(server, in_one) == [b'"a"']
    for pair in (None, bad):
        with pytest.raises(BackendUnavailable):
            exchange(server, shape(pair))


def test_a_renewed_certificate_is_taken_up_at_the_next_start(authority: AuthorityInFolder) -> None:
    async def body() -> None:
        server = proving(authority.sign("127.0.0.1"), clients=authority)
        files = authority.sign("penstock")
        good = files.certificate.read_bytes(), files.key.read_bytes()
        stranger = AuthorityInFolder(files.key.parent, "stranger").sign("penstock")  # over the same files
        assert stranger == files
        shape = GrpcSettings(
            ca_file=str(authority.file), client_certificate=str(files.certificate), client_key=str(files.key)
        )
        async with serving(Service(), credentials=server) as url:
            backend = GrpcBackend(url, shape, **PATIENT)
            with pytest.raises(BackendUnavailable):
                await backend.start()
            files.certificate.write_bytes(good[0])
            files.key.write_bytes(good[1])
            await backend.start()
            try:
                assert (await backend.run(batch_of(b'"a"'))).outputs == [b'"a"']
            finally:
                await backend.close()

    asyncio.run(body())


def test_an_authority_whose_file_has_become_empty_is_not_replaced_by_others(
    authority: AuthorityInFolder,
) -> None:
    async def body() -> None:
        async with serving(Service(), credentials=proving(authority.sign("127.0.0.1"))) as url:
            backend = GrpcBackend(url, GrpcSettings(ca_file=str(authority.file)), **PATIENT)
            authority.file.write_text("")
            with pytest.raises(BackendUnavailable, match="no certificate in PEM"):
                await backend.start()

    asyncio.run(body())


def test_tls_is_never_left_out_silently(authority: AuthorityInFolder) -> None:
    """Neither by us, nor for an endpoint that does without."""
    with pytest.raises(UserMistake, match="write grpcs://"):
        GrpcBackend("grpc://127.0.0.1:1/m", GrpcSettings(ca_file=str(authority.file)))

    async def body() -> None:
        async with serving(Service()) as url:
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await GrpcBackend(url.replace("grpc://", "grpcs://"), **PATIENT).start()

    asyncio.run(body())


def test_files_that_are_not_what_they_should_be_are_refused_by_name(
    authority: AuthorityInFolder, tmp_path: Path
) -> None:
    ours, other = authority.sign("penstock"), authority.sign("other")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for files, says in (
        ({"ca_file": str(empty)}, "grpc.ca_file .*empty.pem: no certificate in PEM"),
        ({"client_certificate": str(ours.certificate)}, "penstock.pem: not a certificate and its own key"),
        (
            {"client_certificate": str(ours.certificate), "client_key": str(other.key)},
            "not a certificate and its own",
        ),
        (
            {"client_certificate": str(empty), "client_key": str(ours.key)},
            "not a certificate and its own key",
        ),
    ):
        with pytest.raises(UserMistake, match=says):
            GrpcSettings(**files)  # type: ignore[arg-type]
