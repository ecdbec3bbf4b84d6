"""Makes the TLS of an edge from the files that the configuration names. Called once for each port that speaks TLS:
the data plane's by the roles that have one, the admin plane's by `life.py`."""

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
