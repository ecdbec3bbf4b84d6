"""The line with which a new server can be tried."""

from penstock.config import Config


def try_it(inference: str, config: Config) -> str:
    """`inference`: the whole URL. Where keys or tokens are asked for, the line has room for one."""
    secured = config.auth.mode not in ("auto", "none")
    key = ' -H "Authorization: Bearer $KEY"' if secured else ""
    named = len(config.models) > 1 and not any(model.default for model in config.models.values())
    choice = f', "model": "{next(iter(config.models))}"' if named else ""
    return f'try it:  curl {inference}{key} --json \'{{"input": "hello"{choice}}}\''
