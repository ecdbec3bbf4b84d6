"""The door `/v1/files/{file_id}/content`, as OpenAI has it: the bytes of a file, piece by piece, as fast as the
client takes them. The data plane calls it, as every door; `runtime/jobs` reads the file."""

import asyncio
import logging

from penstock.doors.door import Respond, Visit
from penstock.doors.openai_files.files import FILE_ID, File
from penstock.doors.openai_files.shapes import ERRORS, KeepingDoor
from penstock.doors.openai_shape import ERROR_SCHEMA
from penstock.doors.openapi_parts import BYTES, Described, Offer
from penstock.doors.wishes import read_query
from penstock.edge.answer import Answer

OCTETS = ("content-type", "application/octet-stream")
PATIENCE = 30.0  # seconds in which a client must take a piece

log = logging.getLogger("penstock.doors")


class FileContent(KeepingDoor):
    """Sends what is in a file."""

    path = f"{File.path}/content"

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        name = visit.path.removeprefix(File.path.partition("{")[0]).removesuffix("/content")
        file = self.jobs.find_file(visit.tenant, name)
        fields = [OCTETS, ("content-length", str(file.size))]
        if not file.size:
            respond(Answer(200, [OCTETS], b""))
            return
        pieces = self.jobs.content(file)
        piece = await anext(pieces)  # whatever is wrong with the file is told before the answer begins
        parts = visit.begin(Answer(200, fields, b""))
        if parts is None:
            return
        try:
            async for following in pieces:
                parts.send(piece)
                async with asyncio.timeout(PATIENCE):
                    await parts.taken()
                piece = following
        except (TimeoutError, OSError) as error:
            why = "its client does not read it" if isinstance(error, TimeoutError) else str(error)
            log.warning("a file was not sent to its end", extra={"file": file.id, "error": why})
            parts.cut()
        else:
            parts.end(piece)

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "fileContent",
            "tags": ["Files"],
            "summary": "What is in a file",
            "responses": {
                "200": {"description": "Its bytes", "content": {"application/octet-stream": BYTES}},
                **self.describe_errors(*ERRORS),
            },
        }
        return Described({self.path: {"parameters": [FILE_ID], "get": operation}}, ERROR_SCHEMA)
