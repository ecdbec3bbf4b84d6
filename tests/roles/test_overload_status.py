"""`api.overload_status`: an overloaded server says 429 at every door, and one that stops says 503 all the same."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import PATIENT, eventually, held, running

# One request waits and no more, so that few are too many.
CONFIG = f"[api]\noverload_status = %d\n[limits]\nmax_queue = 1\n{PATIENT}"
EMBEDDINGS = {"model": "batch", "input": "hello"}
BODIES = {
    "/v1/inference": {"input": "hello"},
    "/api/inference": {"input": "hello"},
    "/v1/embeddings": EMBEDDINGS,
    "/v1/completions": {"model": "batch", "prompt": ["hello", "you"]},
}


@pytest.mark.parametrize("status", [503, 429])
def test_overload_has_this_status_at_every_door_and_stopping_has_503(status: int, tmp_path: Path) -> None:
    options = "--max-batch", "1"
    with (
        running(held(tmp_path), *options, config=CONFIG % status) as server,
        ThreadPoolExecutor() as pool,
    ):
        accepted = [pool.submit(server.post, "/v1/inference", {"input": "first"})]
        eventually(lambda: server.health()["waiting_clients"] == 1 and not server.health()["queue_depth"])
        accepted.append(pool.submit(server.post, "/v1/inference", {"input": "second"}))
        eventually(lambda: server.health()["queue_depth"] == 1)
        for path, body in BODIES.items():
            refused = server.post(path, body)
            assert (path, refused.status) == (path, status)
            assert int(refused.headers["retry-after"]) >= 1
        native = server.post("/v1/inference", {"input": "hello"}).json()
        assert native["error"] == "SERVICE_OVERLOADED"
        openai = server.post("/v1/embeddings", EMBEDDINGS).json()["error"]
        assert openai["code"] == "server_overloaded"

        stopping = pool.submit(server.admin, "/drain", "POST")
        eventually(lambda: server.admin("/readyz").status == 503)
        for path, body in BODIES.items():
            assert (path, server.post(path, body).status) == (path, 503)
        server.open()
        assert {each.result().status for each in accepted} == {200}
        assert stopping.result().json()["drained"]
