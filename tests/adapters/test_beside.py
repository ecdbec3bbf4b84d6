"""What a function's process does beside the function, and when it rather does not."""

import sys
import threading
from functools import partial
from typing import Any

import msgspec
import pytest

from penstock.adapters.backends.beside import FIRST_REST, GREEDY, LONGEST_REST, Writer, plain
from penstock.adapters.backends.contract import Contract
from penstock.adapters.backends.frames import Answer, Done, Inbox, Rejected, Setup, Work
from penstock.adapters.backends.loading import Loaded


def test_answers_are_written_in_another_thread_one_after_the_other() -> None:
    usual = sys.getswitchinterval()
    written: list[tuple[int, str]] = []
    writer = Writer()

    def write(number: int) -> None:
        written.append((number, threading.current_thread().name))

    for number in range(100):
        writer.write(partial(write, number))
    writer.wait()
    assert written == [(number, "penstock-writer") for number in range(100)]
    assert sys.getswitchinterval() == usual


def test_the_next_answers_wait_until_the_last_are_written() -> None:
    writer, may_end, order = Writer(), threading.Event(), []

    def slow() -> None:
        may_end.wait()
        order.append("first")

    writer.write(slow)
    second = threading.Thread(target=lambda: writer.write(lambda: order.append("second")))
    second.start()
    may_end.set()
    second.join()
    writer.wait()
    assert order == ["first", "second"]


class Held(Writer):
    """Its thread comes to nothing, as beside a function that never lets go of the interpreter's lock."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.current_thread()

    def write_in_vain(self) -> None:
        self._free.set()
        self.write(lambda: None)


def rest(writer: Writer) -> int:
    """For how many batches the writer does not want any answers."""
    batches = 0
    while not writer.worth_it:
        batches += 1
    return batches


def test_beside_a_function_that_never_lets_go_answers_are_written_first() -> None:
    writer, rests = Held(), []
    for _ in range(9):
        writer.write_in_vain()
        writer.ran(2 * GREEDY)
        writer.ran(2 * GREEDY)  # counts once
        rests.append(rest(writer) + 1)
    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests[-1] == LONGEST_REST


def test_a_short_batch_tells_nothing_and_a_good_one_forgives() -> None:
    writer = Held()
    writer.write_in_vain()
    writer.ran(GREEDY / 2)
    assert writer.worth_it
    writer.ran(2 * GREEDY)
    assert rest(writer) + 1 == FIRST_REST
    working = Writer()
    working.write(lambda: None)
    working.wait()
    working.ran(2 * GREEDY)
    assert working.worth_it


class Text(str):
    """May have any method that JSON is made with."""


@pytest.mark.parametrize(
    "outputs",
    [["a", "b"], ("a", 1, 0.5, None, True, b"x"), [[0.5, 1], [2.0]], [{"label": "a", "score": 0.5}], []],
)
def test_plain_outputs_are_copied(outputs: Any) -> None:
    kept = plain(outputs)
    assert kept == list(outputs)
    assert kept is not outputs
    assert all(a is not b for a, b in zip(kept, outputs, strict=True) if isinstance(a, list | dict))


@pytest.mark.parametrize(
    "outputs",
    [
        [Text("a")],
        [[[1]]],
        [[1], "a"],
        [[object()]],
        [{"a": [1]}],
        [{"a": object()}],
        "text",
        None,
        {"a": 1},
        iter([1]),
    ],
)
def test_what_may_change_or_run_code_is_not(outputs: Any) -> None:
    assert plain(outputs) is None


def test_a_tensor_is_read_at_once() -> None:
    def tensor(value: Any) -> Any:
        return type("Tensor", (), {"__module__": "torch", "tolist": lambda self: value})()

    assert plain(tensor([[1.0], [2.0]])) == [[1.0], [2.0]]
    assert plain(tensor(1.0)) is None


def test_an_array_of_numbers_is_copied_and_one_of_objects_is_not() -> None:
    numpy = pytest.importorskip("numpy")
    rows = numpy.zeros((2, 3))
    kept = plain(rows)
    rows[:] = 1
    assert kept.tolist() == [[0.0] * 3] * 2
    assert plain(numpy.array([object()])) is None


def test_what_goes_wrong_while_answers_are_made_beside_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is owed for each batch: without one the server would wait until the process counts as hung."""
    contract = Contract(
        Loaded(lambda inputs: inputs, "echo", "app.py:echo"), Setup(0, "echo", "auto", "auto", None)
    )
    work = Work(7, b"", [b"1"])
    inbox: Inbox[Answer] = Inbox(msgspec.msgpack.Decoder(Answer))

    def read(frame: bytearray) -> Answer:
        inbox.room()[: len(frame)] = frame
        (message,) = inbox.filled(len(frame))
        return message

    reading = contract.read(work)
    done = read(contract.answer_later(work, reading, [1])())
    assert isinstance(done, Done)
    assert (done.id, done.outputs) == (7, [b"1"])
    broken = read(contract.answer_later(work, reading, [1, 2])())
    assert isinstance(broken, Rejected)
    assert broken.message == "echo returned 2 outputs for 1 inputs"

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(contract, "_encoded", no_memory)
    rejected = read(contract.answer_later(work, reading, [1])())
    assert isinstance(rejected, Rejected)
    assert "MemoryError" in rejected.message
