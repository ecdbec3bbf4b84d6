"""What a worker says of the sizes of its batches, as gateways and batchers understand it."""

from typing import Any

import pytest
from msgspec import json, structs

from penstock.cluster.announcements import announcement_of, model_of, with_model
from penstock.config import Config, Model
from penstock.from_config.rules import batching_rules
from penstock.words.announcements import ModelAnnouncement, read_announcement
from penstock.words.basics import Garbled, write


def heard(model: Model) -> ModelAnnouncement:
    return read_announcement(write(announcement_of(Config(models={"x": model}), "x")))


@pytest.mark.parametrize(
    ("sizes", "allowed", "largest"),
    [
        ("any", (), 100),
        ("powers", (1, 2, 4, 8, 16, 32, 64, 100), 100),
        ((3, 10, 48), (3, 10, 48), 48),
    ],
)
def test_a_batcher_seals_batches_of_the_sizes_that_the_worker_allows(
    sizes: Any, allowed: tuple[int, ...], largest: int
) -> None:
    said = heard(Model("f", max_batch=100, batch_sizes=sizes))
    assert model_of(said).batch_sizes == sizes
    rules = batching_rules("x", with_model(Config(), "x", said))
    assert (rules.sizes.allowed, rules.max_batch) == (allowed, largest)


def test_of_a_model_whose_batches_have_any_size_nothing_new_is_said() -> None:
    said = write(announcement_of(Config(models={"x": Model("f")}), "x"))
    assert b"batch_sizes" not in said
    assert b"batch_cost" not in said


@pytest.mark.parametrize("sizes", ["squares", (), (0, 1), (8, 200)])
def test_sizes_that_no_model_can_have_are_not_believed(sizes: Any) -> None:
    with pytest.raises(ValueError):
        model_of(structs.replace(heard(Model("f", max_batch=100)), batch_sizes=sizes))


def test_sizes_that_are_no_numbers_are_garbled() -> None:
    said = json.decode(write(heard(Model("f", batch_sizes=(1, 2)))))
    with pytest.raises(Garbled):
        read_announcement(json.encode({**said, "batch_sizes": ["a"]}))


@pytest.mark.parametrize("kind", ["sum", "padded"])
def test_batchers_count_the_cost_of_a_batch_as_its_worker_says(kind: str) -> None:
    assert model_of(heard(Model("f", max_cost=9.0, batch_cost=kind))).batch_cost == kind


def test_a_kind_of_cost_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="most"):
        model_of(structs.replace(heard(Model("f")), batch_cost="most"))
