"""A stranger, where nobody is asked who they are, makes tasks and reads those whose ids are near its own."""

from arena import Arena
from server import call
from stage import SERVED

OTHERS, NEAR = 5, 32


def test_the_ids_near_one_s_own_are_nobody_s(arena: Arena) -> None:
    """What counts is what was found, so there is no victim that waits."""
    url = arena.place(SERVED).url
    headers = {"content-type": "application/json", "prefer": "respond-async"}

    def task() -> str:
        task_id: str = call(url, "POST", "/v1/inference", b'{"input": "a secret"}', headers).json()["task_id"]
        return task_id

    before, mine, after = ([task() for _ in range(many)] for many in (OTHERS, 1, OTHERS))
    number, width = int(mine[0], 16), len(mine[0])
    guesses = [f"{number + step:0{width}x}" for step in range(-NEAR, NEAR + 1) if step]
    assert not {*guesses} & {*before, *after}
    assert {call(url, "GET", f"/v1/result/{guess}").status for guess in guesses} == {404}
    assert call(url, "GET", f"/v1/result/{mine[0]}").status == 200
