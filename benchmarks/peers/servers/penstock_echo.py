"""The function Penstock serves: one batch in, the same batch out."""


def batchstring(inputs: list[str]) -> list[str]:
    return inputs
