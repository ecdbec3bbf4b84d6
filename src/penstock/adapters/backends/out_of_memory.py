"""Whether a batch failed because it did not fit into memory. `contract.py` asks about each error of a function, in
the function's process; `http.py` and `grpc.py` ask about errors that an endpoint answers. No framework is imported
to find out: they are known by the names of their exceptions. Pure.

    MemoryError                                                     Python and NumPy
    torch.OutOfMemoryError, torch.cuda.OutOfMemoryError             also CuPy's and those of others, by this name
    ResourceExhaustedError                                          TensorFlow
    RuntimeError that begins with "CUDA out of memory"              older PyTorch, and other GPUs alike
    XlaRuntimeError, JaxRuntimeError "RESOURCE_EXHAUSTED: …"        JAX
    an error of ONNX Runtime with "Failed to allocate memory"
    an error that was raised from one of these, or while one of these was handled

The text of an error counts only if no input contains such a text, because an error may quote an input.
"""

import re
from collections.abc import Iterator, Sequence

from penstock.adapters.backends.foreign_text import readable

NAMES = frozenset({"MemoryError", "OutOfMemoryError", "ResourceExhaustedError"})
RUNTIME_NAMES = frozenset({"RuntimeError", "XlaRuntimeError", "JaxRuntimeError"})
LONGEST_CHAIN = 8  # errors, each raised from the next, that are looked at

_RUNTIME = re.compile(r"(CUDA|HIP|XPU|MPS)( backend| error:)? out of memory|RESOURCE_EXHAUSTED: ")
_ONNX = re.compile("Failed to allocate memory")
_SAID = re.compile(
    "out of memory|OutOfMemoryError|OOM when allocating|failed to allocate memory", re.IGNORECASE
)


def is_out_of_memory(error: BaseException, inputs: Sequence[bytes]) -> bool:
    """Returns whether this error of a function means that memory ran out. `inputs`: the batch, as JSON."""
    return any(_says_so(each, inputs) for each in _chain(error))


def says_out_of_memory(text: str, inputs: Sequence[bytes]) -> bool:
    """Returns whether the text of an endpoint's error says that memory ran out. `inputs`: the batch, as JSON."""
    return _SAID.search(text) is not None and not _quotes(_SAID, inputs)


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _says_so(error: BaseException, inputs: Sequence[bytes]) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & NAMES:
        return True
    if type(error).__module__.startswith("onnxruntime"):
        return _ONNX.search(_text(error)) is not None and not _quotes(_ONNX, inputs)
    return (
        bool(names & RUNTIME_NAMES)
        and _RUNTIME.match(_text(error)) is not None
        and not _quotes(_RUNTIME, inputs)
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception that cannot even say what it is
        return ""


def _quotes(said: re.Pattern[str], inputs: Sequence[bytes]) -> bool:
    return any(said.search(readable(payload)) for payload in inputs)
