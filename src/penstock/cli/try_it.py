"""The curl line with which a new server can be tried. `serve.py` and `up.py` print it."""

from penstock.config import Config


def try_it(inference: str, config: Config) -> str:
    """Returns the line. `inference`: the whole URL. If the server requires keys or tokens, the line has a place for
    one."""
    secured = config.auth.mode not in ("auto", "none")
    key = ' -H "Authorization: Bearer $KEY"' if secured else ""
    named = len(config.models) > 1 and not any(model.default for model in config.models.values())
    choice = f', "model": "{next(iter(config.models))}"' if named else ""
    return f'try it:  curl {inference}{key} --json \'{{"input": "hello"{choice}}}\''
