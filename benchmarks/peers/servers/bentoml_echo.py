# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""The rival BentoML, as `benchmarks.peers` starts it: one batchable API, batches of up to 64, no access log.

A batchable API takes and gives lists, so each request carries a list of one.
"""

import bentoml


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Echo:
    @bentoml.api(batchable=True, max_batch_size=64)
    def batchstring(self, inputs: list[str]) -> list[str]:
        return inputs
