"""The smallest thing that can be batched: greet everyone, many at a time.

penstock serve examples/hello.py:batchstring --workers 2 --max-batch 32
curl -s localhost:8000/v1/inference -H 'content-type: application/json' -d '{"input": "world"}'
"""


def batchstring(inputs: list[str]) -> list[str]:
    """One output for each input, in the same order: that is the whole contract."""
    return [f"Hello, {name.strip().title()}!" for name in inputs]
