"""Who may be to blame for a batch that failed, and how the batch is split to find out.

`delivery` splits batches by this; `apart` and `caution` note by it who has done harm. Nothing is remembered here. A
culprit is a tenant. Where clients do not say who they are, it is an input (its checksum): the same input sent again
does the same harm.
"""

import itertools
from zlib import crc32

from penstock.core.queued import Queued
from penstock.types import Request

Culprit = str | int


def culprit(request: Request) -> Culprit:
    """Who is to blame if this request does harm."""
    return request.tenant or crc32(request.input)


def _by_culprit(request: Request) -> tuple[str, int]:
    return request.tenant, 0 if request.tenant else crc32(request.input)


def halves(requests: list[Queued]) -> list[list[Queued]]:
    """Split requests into two parts, neither of them empty. A culprit's requests stay together as long as others
    are in the batch too. Then one tenant's bad inputs, however many, are found in a few steps, and the first split
    frees most of the others. The cut is where a culprit's requests end, as near the middle as possible."""
    ordered = sorted(requests, key=_by_culprit)
    size = len(ordered)
    cuts = [
        cut
        for cut, (one, other) in enumerate(itertools.pairwise(map(_by_culprit, ordered)), 1)
        if one != other
    ]
    cut = min(cuts, key=lambda cut: abs(2 * cut - size)) if cuts else size // 2
    return [ordered[:cut], ordered[cut:]]


def even_parts(requests: list[Queued], number: int) -> list[list[Queued]]:
    """The requests in so many parts, as even as they can be, and none empty."""
    number = min(number, len(requests))
    cuts = [len(requests) * cut // number for cut in range(number + 1)]
    return [requests[begin:end] for begin, end in itertools.pairwise(cuts)]
