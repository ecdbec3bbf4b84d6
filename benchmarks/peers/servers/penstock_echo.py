"""The function that Penstock serves in `benchmarks.peers`: one batch in, the same batch out."""


def batchstring(inputs: list[str]) -> list[str]:
    return inputs
