"""Server certificates, as the configuration names them. Used by `life` and `roles` to make the TLS of an edge."""

from pathlib import Path

from penstock.config import Config
from penstock.edge.tls import ServerTls, TlsSettings


def server_tls(config: Config) -> ServerTls | None:
    """None if clients are served without TLS. Raises UserMistake for files that cannot be used."""
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
