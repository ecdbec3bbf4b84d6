"""What a client is answered, whatever the version of HTTP: a status, header fields and a body. The doors and the
admin plane make answers. Each version of HTTP writes its own head, with the date and the length of the body."""

from collections.abc import Sequence

from msgspec import Struct

Fields = Sequence[tuple[str, str]]  # names in lower case, and their values

JSON = ("content-type", "application/json")


class Answer(Struct, eq=False):
    """One answer."""

    status: int
    fields: Fields
    body: bytes


def with_fields(answer: Answer, more: Fields) -> Answer:
    return Answer(answer.status, [*answer.fields, *more], answer.body)
