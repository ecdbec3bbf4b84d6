"""The client: asks a Penstock server from a program. Users' programs import `Client` and `AsyncClient` from here.

    with Client("http://127.0.0.1:8000") as client:
        print(client.infer("hello").output)

It knows the server by its address only. Of Penstock it imports nothing but `errors` and the version, so that it is
quickly imported. The load generator (`bench/`) uses its connections, and `penstock map` (`cli/map.py`) is made of
it.
"""

from penstock.client.answer import Answer as Answer
from penstock.client.answer import Metadata as Metadata
from penstock.client.async_client import AsyncClient as AsyncClient
from penstock.client.async_map import AsyncMapped as AsyncMapped
from penstock.client.course import Done as Done
from penstock.client.course import NotDone as NotDone
from penstock.client.course import SomeFailed as SomeFailed
from penstock.client.errors import Busy as Busy
from penstock.client.errors import Failed as Failed
from penstock.client.errors import InferenceError as InferenceError
from penstock.client.errors import Late as Late
from penstock.client.errors import NoContact as NoContact
from penstock.client.errors import Refused as Refused
from penstock.client.retries import Retries as Retries
from penstock.client.sync_client import Client as Client
from penstock.client.sync_map import Mapped as Mapped
