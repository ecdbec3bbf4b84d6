"""A plugin for pytest: HTTP/2 by our own state machine, as gRPC has it."""

from penstock.edge.http2 import Http2Connection
from penstock.edge.http2_sending import lighter_machine

Http2Connection.machine = lighter_machine()
