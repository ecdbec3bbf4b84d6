# mypy: disable-error-code="import-not-found, misc"
"""The rival Mosec, as `benchmarks.peers` starts it: one worker process behind its Rust front, batches of up to 64,
all else as it comes."""

from mosec import Server, Worker


class Echo(Worker):
    def forward(self, data: list[dict[str, str]]) -> list[dict[str, str]]:
        return [{"output": item["input"]} for item in data]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Echo, num=1, max_batch_size=64)
    server.run()
