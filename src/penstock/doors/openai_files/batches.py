"""The doors `/v1/batches`, `/v1/batches/{batch_id}` and `…/cancel`, as OpenAI has them: a tenant has the lines of a
file run, each as a request of its own. The data plane calls them, as every door; `runtime/jobs` runs the lines when
workers would idle. What OpenAI calls a batch is a *job* in the source, since batches are what workers get."""

from collections.abc import Collection
from typing import Literal

import msgspec

from penstock.doors.door import Inside, Respond, Visit
from penstock.doors.inputs import decode
from penstock.doors.openai_files.shapes import (
    ERRORS,
    BatchList,
    KeepingDoor,
    Metadata,
    OpenAIBatch,
    page_of,
    told,
)
from penstock.doors.openai_shape import ERROR_SCHEMA
from penstock.doors.openapi_parts import Described, Offer, answered, of_structs, parameter, sent
from penstock.doors.wishes import media_of, read_query
from penstock.errors import TooLarge, Unacceptable
from penstock.ports.jobs import Jobs

MOST_LISTED, USUALLY_LISTED = 100, 20
MOST_BODY = 32 * 1024  # bytes


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: Literal["24h"]
    metadata: Metadata = None


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
            respond(told(BatchList.of(page, more=more)))
            return
        read_query(visit.query)
        media_of(visit.headers)
        body = self._read(visit.body)
        self.charge(visit)
        job = await self.jobs.create(
            visit.tenant, visit.identity, body.endpoint, body.input_file_id, body.metadata
        )
        respond(told(OpenAIBatch.of(job)))

    def _read(self, body: bytes) -> BatchBody:
        if len(body) > MOST_BODY:
            raise TooLarge(f"the body is larger than {MOST_BODY} bytes")
        said = decode(_BODY, body, is_unicode=False)
        if said.endpoint not in self._endpoints:
            raise Unacceptable(f"'endpoint' must be one of {', '.join(sorted(self._endpoints))}")
        return said

    def describe(self, offer: Offer) -> Described:
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
            "requestBody": sent("BatchBody"),
            "responses": {"200": answered("The batch", "OpenAIBatch"), **self.describe_errors(*ERRORS)},
        }
        schemas = {**of_structs(BatchBody, BatchList), **ERROR_SCHEMA}
        schemas["BatchBody"]["properties"]["endpoint"] = {"enum": sorted(self._endpoints)}
        return Described({self.path: {"get": listed, "post": made}}, schemas)


class OneBatch(KeepingDoor):
    """Tells of one batch."""

    path = f"{Batches.path}/{{batch_id}}"

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        name = visit.path.removeprefix(f"{Batches.path}/")
        respond(told(OpenAIBatch.of(self.jobs.find_job(visit.tenant, name))))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "batch",
            "tags": ["Files"],
            "summary": "Where a batch stands",
            "responses": {"200": answered("The batch", "OpenAIBatch"), **self.describe_errors(*ERRORS)},
        }
        return Described({self.path: {"parameters": [_BATCH_ID], "get": operation}}, of_structs(OpenAIBatch))


class CancelBatch(KeepingDoor):
    """Cancels a batch. What it has done so far stays there as its files."""

    path = f"{OneBatch.path}/cancel"
    methods = ("POST",)

    async def tell(self, visit: Visit, respond: Respond) -> None:
        read_query(visit.query)
        name = visit.path.removeprefix(f"{Batches.path}/").removesuffix("/cancel")
        respond(told(OpenAIBatch.of(await self.jobs.cancel(visit.tenant, name))))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "cancelBatch",
            "tags": ["Files"],
            "summary": "Cancel a batch",
            "responses": {"200": answered("The batch", "OpenAIBatch"), **self.describe_errors(*ERRORS)},
        }
        return Described({self.path: {"parameters": [_BATCH_ID], "post": operation}}, of_structs(OpenAIBatch))


_BATCH_ID = parameter(
    "batch_id",
    "path",
    "As the batch's `id` says.",
    {"type": "string", "minLength": 1, "pattern": "^[0-9a-z_-]+$"},
)
