"""The library that knows the frames of HTTP/2, their compression and their windows: jh2, whose core is
compiled, where it is installed, and else h2, which has the same names. Whoever speaks HTTP/2 takes them from
here (`http2.py`, `http2_sending.py`, `grpc.py`)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.errors import ErrorCodes
    from h2.events import (
        ConnectionTerminated,
        DataReceived,
        Event,
        RemoteSettingsChanged,
        RequestReceived,
        StreamEnded,
        StreamReset,
        WindowUpdated,
    )
    from h2.exceptions import ProtocolError
    from h2.settings import SettingCodes, Settings
else:
    try:
        from jh2.config import H2Configuration
        from jh2.connection import H2Connection
        from jh2.errors import ErrorCodes
        from jh2.events import (
            ConnectionTerminated,
            DataReceived,
            Event,
            RemoteSettingsChanged,
            RequestReceived,
            StreamEnded,
            StreamReset,
            WindowUpdated,
        )
        from jh2.exceptions import ProtocolError
        from jh2.settings import SettingCodes, Settings
    except ImportError:
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.errors import ErrorCodes
        from h2.events import (
            ConnectionTerminated,
            DataReceived,
            Event,
            RemoteSettingsChanged,
            RequestReceived,
            StreamEnded,
            StreamReset,
            WindowUpdated,
        )
        from h2.exceptions import ProtocolError
        from h2.settings import SettingCodes, Settings

__all__ = [
    "ConnectionTerminated",
    "DataReceived",
    "ErrorCodes",
    "Event",
    "H2Configuration",
    "H2Connection",
    "ProtocolError",
    "RemoteSettingsChanged",
    "RequestReceived",
    "SettingCodes",
    "Settings",
    "StreamEnded",
    "StreamReset",
    "WindowUpdated",
]
