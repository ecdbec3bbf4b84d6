"""Values are changed in a file, and everything else in it stays."""

import tomllib

import pytest

from penstock.config.config import Setting
from penstock.config.edited import edited
from penstock.config.told import told_config
from penstock.errors import UserMistake

FILE = """\
# ours
[server]
port = 8001   # as ever

[models."my.model"]
target = "sim:10ms"
policy = 'greedy'    # a # and a " in a comment
batch_sizes = [
    1, 2,
]

[tiers]
ageing = "2s"
"""
MODEL = ("models", "my.model")


def test_a_value_is_changed_where_it_stands_and_its_comment_stays() -> None:
    text = edited(FILE, {(*MODEL, "policy"): "window", ("server", "port"): 9})
    assert text == FILE.replace("'greedy'", '"window"').replace("8001", "9")


def test_what_is_not_there_goes_into_its_table_or_a_new_one() -> None:
    text = edited(FILE, {(*MODEL, "reserve"): 1, ("limits", "max_queue"): 5, ("tiers", "order"): "strict"})
    assert tomllib.loads(text)["models"]["my.model"]["reserve"] == 1
    assert tomllib.loads(text)["tiers"] == {"ageing": "2s", "order": "strict"}
    assert text.endswith("[limits]\nmax_queue = 5\n")
    for line in FILE.splitlines():
        assert line in text.splitlines()
    assert edited("", {("tiers", "order"): "strict"}) == '\n[tiers]\norder = "strict"\n'


def test_dotted_keys_texts_with_a_hash_and_lines_of_windows_are_understood() -> None:
    assert (
        edited('models.m.policy = "a#b" # c', {("models", "m", "policy"): "x"}) == 'models.m.policy = "x" # c'
    )
    windows = edited(
        "[tiers]\r\norder = 'weighted'\r\n", {("tiers", "order"): "strict", ("tiers", "ageing"): "1s"}
    )
    assert windows == '[tiers]\r\nageing = "1s"\r\norder = "strict"\r\n'


@pytest.mark.parametrize(
    "text", ['models = {m = {target = "sim:1ms", policy = "paced"}}', 'models.m = { target = "sim:1ms" }']
)
def test_what_cannot_be_changed_by_itself_is_refused(text: str) -> None:
    with pytest.raises(UserMistake, match=r"models\.m\.policy cannot be changed in the file as it stands"):
        edited(text, {("models", "m", "policy"): "window"})


def test_a_configuration_is_made_of_what_a_server_tells() -> None:
    told = [
        Setting("server.admin_token", '"***"', "penstock.toml:2"),
        Setting('models."my.model".target', '"sim:10ms"', "TARGET"),
        Setting('models."my.model".max_batch', "16", "--max-batch"),
        Setting('models."my.model".max_wait', '"50ms"', "default"),
        Setting('models."my.model".http.headers', '{ a = "***" }', "penstock.toml:9"),
        Setting('models."my.model".timeout', "", "default"),
        Setting("timeouts.timeout", '"9s"', "penstock.toml:4"),
        Setting("timeouts.queue", '"4.5s"', "follows timeouts.timeout"),
        Setting("tiers.default", '"gold"', "penstock.toml:20"),
        Setting("tiers.levels.gold.rank", "0", "penstock.toml:22"),
        Setting("tiers.levels.gold.weight", "2", "default"),
    ]
    config = told_config(told)
    model = config.models["my.model"]
    assert (model.target, model.max_batch, model.max_wait) == ("sim:10ms", 16, 0.05)
    assert config.timeouts_of("my.model").queue == 4.5
    assert list(config.tiers.levels) == ["gold"]
    assert config.tiers.levels["gold"].weight == 2
    assert not config.server.admin_token
