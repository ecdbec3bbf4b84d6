"""The doors `/v1/batches`, `/v1/batches/{batch_id}` and `…/cancel`, as OpenAI has them: a tenant has the lines of a
file run, each as a request of its own. The data plane calls them, as every door; `runtime/jobs` runs the lines when
workers would idle. What OpenAI calls a batch is a *job* in the source, since batches are what workers get."""

from collections.abc import Collection, Mapping

import msgspec

from penstock.doors.door import Inside, Respond, Visit
from penstock.doors.inputs import decode
from penstock.doors.openai_files.shapes import (
    BATCH,
    ERRORS,
    METADATA,
    KeepingDoor,
    batch_of,
    list_of,
    list_schema,
    page_of,
    told,
)
from penstock.doors.openai_shape import ERROR_SCHEMA
from penstock.doors.openapi_parts import STRING, Described, Offer, answered, object_of, parameter, sent
from penstock.doors.wishes import media_of, read_query
from penstock.errors import TooLarge, Unacceptable
from penstock.ports.jobs import Jobs

MOST_LISTED, USUALLY_LISTED = 100, 20
MOST_BODY = 32 * 1024  # bytes
MOST_PAIRS, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512  # of metadata
WINDOW = "24h"


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None


_BODY = msgspec.json.Decoder(BatchBody)


class Batches(KeepingDoor):
    """Makes batches, and lists them."""

    path = "/v1/batches"
    methods = ("GET", "POST")

    def __init__(self, inside: Inside, jobs: Jobs, endpoints: Collection[str]) -> None:
        super().__init__(inside, jobs)
        self._endpoints = endpoints

    async def tell(self, visit: Visit, respond: Respond) -> None:
        if visit.method == "GET":
            query = read_query(visit.query, "limit", "after")
            page, more = page_of(self.jobs.jobs(visit.tenant), query, MOST_LISTED, USUALLY_LISTED)
            respond(told(list_of([batch_of(job) for job in page], more=more)))
            return
        read_query(visit.query)
        media_of(visit.headers)
        body = self._read(visit.body)
        self.charge(visit)
        job = await self.jobs.create(
            visit.tenant, visit.identity, body.endpoint, body.input_file_id, body.metadata
        )
        respond(told(batch_of(job)))

    def _read(self, body: bytes) -> BatchBody:
        if len(body) > MOST_BODY:
            raise TooLarge(f"the body is larger than {MOST_BODY} bytes")
        said = decode(_BODY, body, is_unicode=False)
        if said.endpoint not in self._endpoints:
            raise Unacceptable(f"'endpoint' must be one of {', '.join(sorted(self._endpoints))}")
        if said.completion_window != WINDOW:
            raise Unacceptable(f"'completion_window' must be {WINDOW}")
        if said.metadata is not None:
            _check_metadata(said.metadata)
        return said

    def describe(self, offer: Offer) -> Described:
        request = object_of(
            {
                "input_file_id": STRING,
                "endpoint": {"enum": sorted(self._endpoints)},
                "completion_window": {"const": WINDOW},
                "metadata": METADATA,
            },
            optional=("metadata",),
        )
        listed = {
            "operationId": "batches",
            "tags": ["Files"],
            "summary": "Your batches, the latest first",
            "parameters": [
                parameter(
                    "limit", "query", "So many.", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}
                )
            ],
            "responses": {"200": answered("The batches", "BatchList"), **self.describe_errors(*ERRORS)},
        }
        made = {
            "operationId": "createBatch",
            "tags": ["Files"],
            "summary": "Run the lines of a file",
            "description": "They go when workers would idle. What has not gone after a day is not run.",
            "requestBody": sent("BatchRequest"),
            "responses": {"200": answered("The batch", "Batch"), **self.describe_errors(*ERRORS)},
        }
        schemas = {"BatchRequest": request, "Batch": BATCH, "BatchList": list_schema("Batch"), **ERROR_SCHEMA}
        return Described({self.path: {"get": listed, "post": made}}, schemas)


class OneBatch(KeepingDoor):
    """Tells of one batch."""

    path = f"{Batches.path}/{{batch_id}}"

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        name = visit.path.removeprefix(f"{Batches.path}/")
        respond(told(batch_of(self.jobs.find_job(visit.tenant, name))))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "batch",
            "tags": ["Files"],
            "summary": "Where a batch stands",
            "responses": {"200": answered("The batch", "Batch"), **self.describe_errors(*ERRORS)},
        }
        return Described({self.path: {"parameters": [_BATCH_ID], "get": operation}}, {"Batch": BATCH})


class CancelBatch(KeepingDoor):
    """Cancels a batch. What it has done so far stays there as its files."""

    path = f"{OneBatch.path}/cancel"
    methods = ("POST",)

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        name = visit.path.removeprefix(f"{Batches.path}/").removesuffix("/cancel")
        respond(told(batch_of(await self.jobs.cancel(visit.tenant, name))))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "cancelBatch",
            "tags": ["Files"],
            "summary": "Cancel a batch",
            "responses": {"200": answered("The batch", "Batch"), **self.describe_errors(*ERRORS)},
        }
        return Described({self.path: {"parameters": [_BATCH_ID], "post": operation}}, {"Batch": BATCH})


_BATCH_ID = parameter(
    "batch_id",
    "path",
    "As the batch's `id` says.",
    {"type": "string", "minLength": 1, "pattern": "^[0-9a-z_-]+$"},
)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MOST_PAIRS:
        raise Unacceptable(f"'metadata' has more than {MOST_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > LONGEST_KEY or len(value) > LONGEST_VALUE:
            raise Unacceptable(
                f"'metadata': a key has {LONGEST_KEY} characters at most, and a value {LONGEST_VALUE}"
            )
