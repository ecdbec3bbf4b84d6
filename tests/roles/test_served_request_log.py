"""`server.log_requests` gives each request a line in the log, and nothing of what it said."""

import json

from server import Server, eventually, running

SECRET = "xyzzy-4711"
CONFIG = """
[server]
log_requests = 1
[tiers]
default = "paid"
[tiers.levels.enterprise]
rank = 0
[tiers.levels.paid]
rank = 1
[tiers.levels.free]
rank = 2
requests_per_minute = 1
[tenants.acme]
tier = "enterprise"
[tenants.beta]
tier = "free"
[models.sim]
target = "sim:poison=xyzzy-4711-bad"
"""


def lines(server: Server) -> dict[str, dict[str, object]]:
    """By id."""
    said = [json.loads(line) for line in server.log_lines()]
    asked = [line for line in said if line["logger"] == "penstock.requests"]
    assert len({line["id"] for line in asked}) == len(asked), "two lines for one request"
    return {str(line["id"]): line for line in asked}


def test_each_request_answered_failed_or_refused_has_one_line_without_its_content() -> None:
    with running(config=CONFIG) as server:
        headers = {"authorization": f"Bearer {SECRET}"}
        asked = {"input": SECRET, "client_id": "acme"}
        assert server.post("/v1/inference", asked, {"x-request-id": "good", **headers}).status == 200
        bad = {"input": f"{SECRET}-bad", "client_id": "acme"}
        assert server.post("/v1/inference", bad, {"x-request-id": "bad", **headers}).status == 502
        assert server.post("/v1/inference", {SECRET: 1}, {"x-request-id": "wrong", **headers}).status == 422
        later = {"prefer": "respond-async", "x-request-id": "later"}
        assert server.post("/v1/inference", asked, later).status == 202
        eventually(lambda: set(lines(server)) == {"good", "bad", "wrong", "later"})
        found = lines(server)
        good = found["good"]
        assert (good["tenant"], good["tier"], good["model"], good["status"], good["batch_size"]) == (
            "acme",
            "enterprise",
            "sim",
            "SUCCESS",
            1,
        )
        assert {"latency_ms", "queue_ms", "worker", "time"} <= set(good)
        assert found["bad"]["status"] == "BACKEND_FAILED"
        assert found["wrong"]["status"] == "UNACCEPTABLE"
        assert SECRET not in server.stderr()


def test_a_request_beyond_its_quota_has_a_line_that_says_whose_it_was() -> None:
    with running(config=CONFIG) as server:
        asked = {"input": "a", "client_id": "beta"}
        answers = [server.post("/v1/inference", asked, {"x-request-id": f"r{n}"}).status for n in range(2)]
        assert answers == [200, 429]
        eventually(lambda: len(lines(server)) == 2)
        refused = lines(server)["r1"]
        assert (refused["status"], refused["tenant"], refused["model"]) == ("QUOTA_EXCEEDED", "beta", "sim")


def test_without_being_asked_no_request_has_a_line() -> None:
    with running("sim:0ms") as server:
        assert server.post("/v1/inference", {"input": "a"}).status == 200
        assert server.stop() == 0
        assert lines(server) == {}


def test_the_last_requests_of_a_server_have_theirs_too() -> None:
    with running(config=CONFIG) as server:
        assert server.post("/v1/inference", {"input": "a"}, {"x-request-id": "last"}).status == 200
        assert server.stop() == 0
        assert set(lines(server)) == {"last"}
