"""Who may be to blame for a batch that failed, and how it is taken apart to find out.

To blame is a tenant. Where nobody has said who they are, it is an input: whoever sends the same again sends the
same poison again.
"""

import itertools
from zlib import crc32

from penstock.core.queued import Queued
from penstock.types import Request

Culprit = str | int


def culprit(request: Request) -> Culprit:
    return request.tenant or crc32(request.input)


def _by_culprit(request: Request) -> tuple[str, int]:
    return request.tenant, 0 if request.tenant else crc32(request.input)


def halves(requests: list[Queued]) -> list[list[Queued]]:
    """Two parts, neither of them empty. What one culprit has in the batch stays together while others are with
    it. Then one tenant's poison, however much of it, is found in a few steps, and most of the others are out of
    it with the first. The cut is where a culprit's requests end, as near the middle as may be."""
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
