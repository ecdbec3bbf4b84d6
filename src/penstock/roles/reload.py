"""Finds the models that `penstock serve --reload` can start anew: those with a function in a Python file, which
runs their batches or says what a request costs. `embedded.py` asks once, with `--reload`."""

from collections.abc import Iterable
from functools import partial

from penstock.roles.model import ModelStack
from penstock.runtime.renewal import renew
from penstock.server.reload import Reloadable, Reloader


def reloader(stacks: Iterable[ModelStack]) -> Reloader:
    """Returns the reloader. Raises UserMistake if there is no such model."""
    return Reloader([_reloadable(stack, functions) for stack in stacks if (functions := _functions(stack))])


def _reloadable(stack: ModelStack, functions: list[str]) -> Reloadable:
    return Reloadable(stack.name, functions, partial(renew, stack.served.slots, stack.makers))


def _functions(stack: ModelStack) -> list[str]:
    """Returns the targets of a model that are functions: that which runs its batches, and that which says what a
    request costs."""
    return [stack.model.target] * stack.model.is_function + [stack.model.cost] * (":" in stack.model.cost)
