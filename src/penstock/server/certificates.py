"""Makes the TLS of a process from the files that the configuration names, and reads those files. Each
process calls it once: `roles/embedded.py` and `roles/gateway.py` share the result among HTTP, gRPC and the admin
plane; in a role without clients `life.py` calls it for the admin plane."""

from pathlib import Path

from penstock.config import Config
from penstock.edge.tls import ServerTls, TlsSettings


def server_tls(config: Config) -> ServerTls | None:
    """Returns the TLS for clients; None if they are served without. Raises UserMistake for files that cannot be
    used."""
    tls = config.tls
    if not tls.certificate:
        return None
    return ServerTls(
        TlsSettings(
            Path(tls.certificate),
            Path(tls.key or tls.certificate),
            Path(tls.client_ca) if tls.client_ca else None,
            tls.client_certificates,
            tls.minimum,
            tls.http2,
        )
    )
