"""The examples, served with the commands their README shows."""

from example_endpoint import EXAMPLES, endpoint
from server import running


def test_hello_is_served_and_greets() -> None:
    with running(f"{EXAMPLES / 'hello.py'}:batchstring", "--workers", "2", "--max-batch", "32") as server:
        answer = server.post("/v1/inference", {"input": "world"})
        assert answer.status == 200
        said = answer.json()
        assert (said["output"], said["model"]) == ("Hello, World!", "batchstring")
        assert said["metadata"]["batch_size"] == 1
        assert said["request_id"] == said["task_id"] == answer.headers["x-request-id"]


def test_the_classifier_is_served_with_its_parameter() -> None:
    with running(f"{EXAMPLES / 'classifier.py'}:Classifier", "--warmup", "a first text") as server:
        said = server.post("/v1/inference", {"input": "a lovely day", "parameters": {"top_k": 2}}).json()
        assert [score["label"] for score in said["output"]] == ["good", "bad"]
        assert said["metadata"]["tokens_used"] == 3


def test_the_http_endpoint_is_served_by_its_file() -> None:
    """Only the port differs from what the file says, since a fixed one may be taken."""
    with endpoint() as url, running(url, "--config", str(EXAMPLES / "http_endpoint/penstock.toml")) as server:
        said = server.post("/v1/inference", {"input": "penstock", "model": "reverse"}).json()
        assert (said["output"], said["model"]) == ("kcotsnep", "reverse")
        assert server.post("/v1/inference", {"input": "a", "parameters": {"k": 1}}).status == 422
        assert server.admin("/readyz").status == 200
