"""How a function takes the parameters of its batch, read from its signature once, when the function's process has
loaded it (`contract.py`). Each batch is then given to the function that way.

    f(inputs)                           takes no parameters: a request with parameters is refused
    f(inputs, anything)                 all parameters in a dict, the second argument
    f(inputs, parameters=None)          the same, also under the name `params`
    f(inputs, top_k=5, *, sample=True)  each parameter by its name; other names are refused
    f(inputs, **anything)               each parameter by its name, whatever it is

Where each request has parameters of its own (`parameters = "per_item"`), the second argument is a list of dicts.
"""

import inspect
from collections.abc import Callable
from typing import Any

Kind = inspect.Parameter
DICT_NAMES = ("parameters", "params")  # arguments that take all parameters, also if they have a default


class Unfit(Exception):
    """The function cannot be called with a list of inputs, or not with these parameters. The message says why."""


class Calling:
    """How one function is called."""

    def __init__(self, function: Callable[..., Any], *, per_item: bool = False) -> None:
        self._function = function
        self._dict_name = ""  # the argument that takes all parameters as a dict; empty: there is none
        self._dict_kind: Any = None  # the `inspect` kind of that argument
        self._first = ""  # the name of the argument for the inputs, where it can be used by name
        self.names: list[str] | None = []  # of the parameters that the function takes; None: any
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a function written in C does not tell its signature
            return
        self._read(signature)
        if per_item and not self._dict_name and self.names != []:
            raise Unfit('parameters = "per_item" needs a second argument without a default: a list of dicts')
        self._try(signature)

    def _read(self, signature: inspect.Signature) -> None:
        arguments = list(signature.parameters.values())
        if not arguments or arguments[0].kind in (Kind.KEYWORD_ONLY, Kind.VAR_KEYWORD):
            return
        first, others = arguments[0], arguments[1:]
        if first.kind is Kind.VAR_POSITIONAL:
            others = [other for other in others if other.kind is not Kind.VAR_POSITIONAL]
        elif first.kind is Kind.POSITIONAL_OR_KEYWORD:
            self._first = first.name
        takes_all = next((other for index, other in enumerate(others) if _takes_all(other, index)), None)
        if takes_all is not None:
            self._dict_kind, self._dict_name, self.names = takes_all.kind, takes_all.name, None
        elif any(other.kind is Kind.VAR_KEYWORD for other in others):
            self.names = None
        else:
            by_name = (Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)
            self.names = [other.name for other in others if other.kind in by_name]

    def _try(self, signature: inspect.Signature) -> None:
        """Raises Unfit if the function cannot be called without parameters: most requests have none."""
        try:
            if not self._dict_name:
                signature.bind([])
            elif self._dict_kind is Kind.POSITIONAL_ONLY:
                signature.bind([], {})
            else:
                signature.bind([], **{self._dict_name: {}})
        except TypeError:
            raise Unfit(
                "must take one list of inputs, and may take parameters: as a second argument, or by names that have"
                f" defaults; it is declared {signature}"
            ) from None

    def __call__(self, inputs: list[Any], parameters: Any) -> Any:
        """`parameters`: None if there are none. Raises Unfit if the function does not take one of them."""
        if self._dict_name:
            parameters = {} if parameters is None else parameters
            if self._dict_kind is Kind.POSITIONAL_ONLY:
                return self._function(inputs, parameters)
            return self._function(inputs, **{self._dict_name: parameters})
        if not parameters or self.names == []:
            return self._function(inputs)
        strange = [name for name in parameters if self.names is not None and name not in self.names]
        strange += [name for name in parameters if name == self._first]
        if strange:
            known = f"; it takes {', '.join(self.names)}" if self.names else ""
            raise Unfit(f"takes no parameter {strange[0]!r}{known}")
        return self._function(inputs, **parameters)


def _takes_all(argument: inspect.Parameter, index: int) -> bool:
    """Returns whether the argument takes all parameters as a dict. `index`: 0 for the first argument after the
    inputs."""
    if argument.kind in (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD):
        return False
    if argument.kind is Kind.KEYWORD_ONLY or index > 0:
        return argument.kind is not Kind.POSITIONAL_ONLY and argument.name in DICT_NAMES
    return argument.name in DICT_NAMES or argument.default is Kind.empty
