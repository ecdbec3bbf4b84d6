"""The doors `/v1/files` and `/v1/files/{file_id}`, as OpenAI has them: a tenant sends files of lines for batches,
lists its files, and deletes them. The data plane calls them, as every door; `runtime/jobs` keeps the files."""

from collections.abc import Sequence

from penstock.doors.door import Inside, Respond, Visit
from penstock.doors.large import LargeBodies
from penstock.doors.openai_files.multipart import boundary_of, read_form
from penstock.doors.openai_files.shapes import (
    ERRORS,
    FileDeleted,
    FileList,
    KeepingDoor,
    OpenAIFile,
    page_of,
    told,
)
from penstock.doors.openai_shape import ERROR_SCHEMA
from penstock.doors.openapi_parts import Described, Offer, answered, object_of, of_structs, parameter
from penstock.doors.wishes import read_query
from penstock.errors import Overloaded, Unacceptable, UnsupportedMedia
from penstock.jobs import MADE, UPLOADED, StoredFile
from penstock.ports.jobs import Jobs

MOST_LISTED = 10_000
LONGEST_NAME = 255  # characters of a file's name; more are cut off
SHORTEST, LONGEST = 3600, 2_592_000  # seconds that a client may have a file kept
AT_ONCE = 4  # of the largest files may be in memory after they have come in full
FORM = ("purpose", "expires_after[anchor]", "expires_after[seconds]")


class Files(KeepingDoor):
    """Takes files, and lists them."""

    path = "/v1/files"
    methods = ("GET", "POST")

    def __init__(self, inside: Inside, jobs: Jobs) -> None:
        super().__init__(inside, jobs)
        self.most_body = jobs.most_bytes + 64 * 1024  # the form around the file takes a little too
        self._large = LargeBodies(inside.gateway.clock)
        self._in_hand = 0  # bytes of files that have come in full and are not written yet

    async def tell(self, visit: Visit, respond: Respond) -> None:
        if visit.method == "GET":
            respond(told(self._list(visit)))
        else:
            respond(told(OpenAIFile.of(await self._take(visit))))

    def _list(self, visit: Visit) -> FileList:
        query = read_query(visit.query, "purpose", "limit", "after", "order")
        order = query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise Unacceptable("'order' must be asc or desc")
        if query.get("purpose", UPLOADED) not in (UPLOADED, MADE):
            raise Unacceptable(f"'purpose' must be {UPLOADED} or {MADE}")
        files = [
            file
            for file in self.jobs.files(visit.tenant)
            if query.get("purpose", file.purpose) == file.purpose
        ]
        page, more = page_of(files[::-1] if order == "asc" else files, query, MOST_LISTED, MOST_LISTED)
        return FileList.of(page, more=more)

    async def _take(self, visit: Visit) -> StoredFile:
        read_query(visit.query)
        if visit.headers.get(b"content-encoding", b"identity") != b"identity":
            raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")
        boundary = boundary_of(visit.headers.get(b"content-type"))
        self.charge(visit)
        size = sum(map(len, visit.pieces or [visit.body]))
        if self._in_hand + size > AT_ONCE * self.most_body:
            raise Overloaded("too many files are being taken at once", retry_after=1.0)
        self._in_hand += size
        try:
            return await self._keep(visit, boundary)
        finally:
            self._in_hand -= size

    async def _keep(self, visit: Visit, boundary: bytes) -> StoredFile:
        form = await self._large.look(visit.tenant, read_form(visit.pieces or [visit.body], boundary))
        for name in form.values:
            if name not in FORM:
                raise Unacceptable(f"unknown field {name[:50]!r} in the form")
        if form.values.get("purpose") != UPLOADED:
            raise Unacceptable("'purpose' must be batch: this server runs files of lines, and nothing else")
        if form.file is None:
            raise Unacceptable("'file' is missing in the form")
        keep = _keep_of(form.values)
        return await self.jobs.upload(visit.tenant, _clean(form.file_name), form.file, keep)

    def describe(self, offer: Offer) -> Described:
        form = object_of(
            {
                "file": {"type": "string", "format": "binary"},
                "purpose": {"const": UPLOADED},
            }
        )
        listed = {
            "operationId": "files",
            "tags": ["Files"],
            "summary": "Your files, the latest first",
            "parameters": [
                parameter("purpose", "query", "Only these.", {"enum": [UPLOADED, MADE]}),
                parameter(
                    "limit", "query", "So many.", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}
                ),
                parameter("order", "query", "By when they were made.", {"enum": ["asc", "desc"]}),
            ],
            "responses": {"200": answered("The files", "FileList"), **self.describe_errors(*ERRORS)},
        }
        made = {
            "operationId": "upload",
            "tags": ["Files"],
            "summary": "Send a file of lines for a batch",
            "description": "A line is `{custom_id, method, url, body}`.",
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
            "responses": {"200": answered("The file", "OpenAIFile"), **self.describe_errors(*ERRORS)},
        }
        schemas = {**of_structs(FileList), **ERROR_SCHEMA}
        return Described({self.path: {"get": listed, "post": made}}, schemas)


class File(KeepingDoor):
    """Tells of one file, and deletes it."""

    path = f"{Files.path}/{{file_id}}"
    methods = ("GET", "DELETE")

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        file_id = visit.path.removeprefix(f"{Files.path}/")
        if visit.method == "GET":
            respond(told(OpenAIFile.of(self.jobs.find_file(visit.tenant, file_id))))
            return
        await self.jobs.remove(visit.tenant, file_id)
        respond(told(FileDeleted(file_id, True)))

    def describe(self, offer: Offer) -> Described:
        about = {
            "operationId": "file",
            "tags": ["Files"],
            "summary": "One of your files",
            "responses": {"200": answered("The file", "OpenAIFile"), **self.describe_errors(*ERRORS)},
        }
        deleted = {
            "operationId": "deleteFile",
            "tags": ["Files"],
            "summary": "Delete a file",
            "responses": {"200": answered("It is deleted", "FileDeleted"), **self.describe_errors(*ERRORS)},
        }
        operations = {"parameters": [FILE_ID], "get": about, "delete": deleted}
        return Described({self.path: operations}, {**of_structs(OpenAIFile, FileDeleted), **ERROR_SCHEMA})


FILE_ID = parameter(
    "file_id",
    "path",
    "As the file's `id` says.",
    {"type": "string", "minLength": 1, "pattern": "^[0-9a-z_-]+$"},
)


def _keep_of(values: dict[str, str]) -> int | None:
    """Returns how many seconds a client wants its file kept; None if it does not say."""
    anchor, seconds = values.get("expires_after[anchor]"), values.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise Unacceptable("'expires_after[anchor]' must be created_at")
    if not (seconds and seconds.isascii() and seconds.isdigit() and SHORTEST <= int(seconds[:9]) <= LONGEST):
        raise Unacceptable(f"'expires_after[seconds]' must be a whole number from {SHORTEST} to {LONGEST}")
    return int(seconds)


def _clean(name: str) -> str:
    """Returns a file's name as it may be shown: it never becomes a path here, but a client might make one of it."""
    last: Sequence[str] = name.replace("\\", "/").split("/")
    shown = "".join(each for each in last[-1] if each.isprintable())
    return shown[:LONGEST_NAME] or "file.jsonl"
