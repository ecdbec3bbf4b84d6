"""`penstock init`: writes a first penstock.toml and app.py, which serve as they are. The defaults that it shows
come from `config/`."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from penstock.config import Config, load
from penstock.errors import UserMistake

MODEL, TARGET = "hello", "app.py:predict"
APP = '''\
"""What is served: a function that takes a list of inputs and returns a list of outputs, one for each, in order."""

# Load your model here, at the top of the file: this is run once in every worker.
#
#   from transformers import pipeline
#   classify = pipeline("text-classification")


def predict(inputs: list[str]) -> list[str]:
    """Called with the inputs of one batch, which came from different clients."""
    return [f"Hello, {text}!" for text in inputs]


def warmup() -> list[str]:
    """Inputs that each worker runs before it serves, so that loading and compiling keep no client waiting."""
    return ["Ada"]
'''
HEAD = """\
# Read by `penstock serve` when it is started in this folder.
# `penstock check` says whether it is valid and what is set; with --all, also every default.
# A line that begins with # is a default, or an example: take the # away to change it.
"""


class Line(NamedTuple):
    """A line of penstock.toml, commented out. It shows the default, or an example where there is no default."""

    key: str
    about: str
    example: str = ""


SECTIONS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    (
        f"models.{MODEL}",
        (
            Line("workers", "batches that run at once: one for each GPU"),
            Line("max_batch", "requests in one batch at most: what fits in memory"),
            Line(
                "batch_sizes",
                "powers: batches are padded to 1, 2, 4, …, for models to which new sizes are dear",
            ),
            Line("max_wait", "longest wait for company while a worker is free"),
            Line("input", "what clients send"),
            Line("output", "what your function returns"),
            Line("gpus", "given to the workers in turn, as CUDA_VISIBLE_DEVICES", '["0", "1"]'),
            Line(
                "warmup",
                "an input that each worker runs, in batches of each size, before it serves",
                '["hello"]',
            ),
            Line("deterministic", "true: equal inputs are run once, and the answer is kept"),
        ),
    ),
    (
        "timeouts",
        (
            Line(
                "timeout",
                "every request is answered by then; the limits of the queue and of a batch follow from it",
            ),
        ),
    ),
    (
        "server",
        (
            Line("host", "where clients connect; beyond this machine, say in [auth] who may ask"),
            Line("port", ""),
            Line("admin_port", "probes, metrics and a look inside"),
            Line("log_level", ""),
        ),
    ),
    (
        "auth",
        (Line("mode", "keys: `penstock keys create` makes one; or jwt, keys+jwt, none", '"keys"'),),
    ),
)


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write them; made if it is not there.")] = Path(),
    force: Annotated[bool, typer.Option("--force", "-f", help="Write over what is there.")] = False,
) -> int:
    """Write a commented penstock.toml and an app.py to start from. They serve as they are.

    Example: penstock init my-model && cd my-model && penstock serve
    """
    texts = {folder / "app.py": APP, folder / "penstock.toml": settings_file()}
    there = [path.name for path in texts if path.exists()]
    if there and not force:
        raise UserMistake(
            f"{' and '.join(there)} in {folder.resolve()} would be overwritten: say --force if so"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserMistake(f"cannot write {error.filename}: {error.strerror}") from None
    typer.echo(f"  wrote {' and '.join(str(path) for path in texts)}\n")
    there_first = f"cd {folder} && " if folder != Path() else ""
    typer.echo(f"  next:  {there_first}penstock serve\n")
    return 0


def settings_file() -> str:
    """Returns the text of penstock.toml."""
    known = {setting.key: setting.value for setting in _defaults().explain()}
    blocks = [HEAD]
    for section, chosen in SECTIONS:
        lines = [f"[{section}]"]
        if section == f"models.{MODEL}":
            lines.append(f'target = "{TARGET}"  # or package.module:function, http://…, grpc://…, sim:100ms')
        settings = [f"# {each.key} = {each.example or known[f'{section}.{each.key}']}" for each in chosen]
        width = max(map(len, settings))
        for setting, line in zip(settings, chosen, strict=True):
            lines.append(f"{setting:<{width}}  # {line.about}" if line.about else setting)
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _defaults() -> Config:
    return load(None, {}, {"model.name": MODEL, "model.target": TARGET})
