"""What a client says in one message over a WebSocket. A conversation reads each with it (`conversation.py`)."""

import msgspec

from penstock.doors.inputs import check_unicode, decode
from penstock.doors.native_body import InferenceBody, check
from penstock.doors.steps import Steps
from penstock.errors import Unacceptable

LONGEST_ID = 128  # bytes of an id, as it is written
NOBODY = b"null"  # the id in an answer to a message that has none
BEGINS_ID = frozenset(b'"-0123456789')
NO_TASKS = "'callback_url' is for tasks, and there are none on a WebSocket: its answers come by themselves"


class Message(InferenceBody, forbid_unknown_fields=True):
    """What a client may say: one of an ask, a cancellation and an introduction."""

    input: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    cancel: msgspec.Raw = msgspec.Raw()
    authorization: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


class _Named(msgspec.Struct):
    """The id of a message that is not acceptable otherwise."""

    id: msgspec.Raw = msgspec.Raw()


MESSAGE = msgspec.json.Decoder(Message)
decode_message = MESSAGE.decode
_decode_named = msgspec.json.Decoder(_Named).decode


def read_in_steps(message: bytes) -> Steps[tuple[Message, bool]]:
    ascii_only = yield from check_unicode(message)
    said = decode(MESSAGE, message, is_unicode=True)
    yield
    return said, ascii_only


def name_of(said: msgspec.Raw) -> bytes:
    """Returns an id as it was written. Raises Unacceptable."""
    name = bytes(said)
    if not name:
        raise Unacceptable("the field 'id' is missing: an answer is told by it")
    if name[0] not in BEGINS_ID or len(name) > LONGEST_ID:
        raise Unacceptable(f"'id' must be a string or a number, and at most {LONGEST_ID} bytes long")
    return name


def id_in(message: bytes) -> bytes:
    """Returns the id of a message that is not acceptable; null if it has none that can be given back."""
    try:
        name = name_of(_decode_named(message).id)
        name.decode()  # the decoder does not look at strings inside raw JSON, and an answer must be UTF-8
        return name
    except Exception:  # whatever is wrong with it, the client is told of the first mistake
        return NOBODY


def in_words(message: bytes, exc: Exception) -> Exception:
    """Returns the error in words fit for the client, if it is that the message could not be read."""
    if isinstance(exc, msgspec.MsgspecError | RecursionError):
        try:
            decode(MESSAGE, message, is_unicode=True)
        except Exception as said:
            return said
    return exc


def check_ask(said: Message) -> None:
    """Refuse fields of an ask that are not acceptable. Its input is checked elsewhere."""
    if said.callback_url is not None:
        raise Unacceptable(NO_TASKS)
    check(said)
