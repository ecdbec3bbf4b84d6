"""What is in force, and where it came from."""

import pickle
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.config import Config, Level, Model, Server, Tenant, Tiers, Timeouts, find_file, load, name_after
from penstock.config.toml import key_lines, toml

FILE = """\
[server]
port = 8100  # not the usual one

[models.embed]
target = "app.py:embed"
max_wait = "20ms"
warmup = [
  "one",
  '''two
lines''',
]
memory_limit = "2GiB"
gpus = [0, 1]

[models.embed.http]
headers = { Authorization = "Bearer hush" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A penstock.toml in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("penstock.toml").write_text(FILE, encoding="utf-8")
    return Path("penstock.toml")


def test_nothing_given_is_every_default() -> None:
    assert load(None, {}, {}) == Config()


def test_a_file_gives_seconds_bytes_and_tuples(file: Path) -> None:
    model = load(file, {}, {}).models["embed"]
    assert (model.max_wait, model.memory_limit) == (0.02, 2 * 2**30)
    assert model.warmup == ("one", "two\nlines")
    assert model.gpus == ("0", "1")


@pytest.mark.parametrize(
    ("environ", "overrides", "port", "source"),
    [
        ({}, {}, 8100, "penstock.toml:2"),
        ({"PENSTOCK_SERVER_PORT": "8200"}, {}, 8200, "PENSTOCK_SERVER_PORT"),
        ({"PENSTOCK_SERVER_PORT": "8200"}, {"server.port": 8300}, 8300, "--port"),
        ({"PENSTOCK_SERVER_PORT": "8200"}, {"server.port": None}, 8200, "PENSTOCK_SERVER_PORT"),
    ],
)
def test_command_line_beats_environment_beats_file(
    file: Path, environ: dict[str, str], overrides: dict[str, object], port: int, source: str
) -> None:
    config = load(file, environ, overrides)
    assert (config.server.port, config.source("server.port")) == (port, source)


def test_every_value_can_be_explained(file: Path) -> None:
    config = load(file, {"PENSTOCK_MODEL_MAX_BATCH": "8"}, {"model.target": "b.py:f", "timeouts.queue": "1s"})
    rows = {row.key: (row.value, row.source) for row in config.explain()}
    assert rows["server.host"] == ('"127.0.0.1"', "default")
    assert rows["models.embed.target"] == ('"b.py:f"', "TARGET")
    assert rows["models.embed.max_batch"] == ("8", "PENSTOCK_MODEL_MAX_BATCH")
    assert rows["models.embed.warmup"] == ('["one", "two\\nlines"]', "penstock.toml:7")
    assert rows["models.embed.max_cost"] == ("", "default")
    assert rows["timeouts.queue"] == ('"1s"', "--timeouts-queue")
    assert rows["tiers.levels.free.weight"] == ("1", "default")


def test_what_is_explained_is_toml_that_loads_to_the_same(file: Path, tmp_path: Path) -> None:
    Path("penstock.toml").write_text(FILE.partition("\n[models.embed.http]")[0], encoding="utf-8")
    config = load(file, {}, {"model.version": 'say "when"\t\x7f', "model.request_timeout": "100ms"})
    following = ("timeouts.queue", "timeouts.processing", "timeouts.request")
    again = tmp_path / "again.toml"
    again.write_text(
        "".join(
            f"{row.key} = {row.value}\n" for row in config.explain() if row.value and row.key not in following
        ),
        "utf-8",
    )
    assert load(again, {}, {}) == config


def test_the_value_of_a_header_is_never_shown(file: Path) -> None:
    config = load(file, {}, {})
    assert config.models["embed"].http.headers == {"Authorization": "Bearer hush"}
    assert "hush" not in "".join(map(str, config.explain())) + repr(config)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://alice:hush@gpu:8000/v1?key=hush&n=", "https://alice:***@gpu:8000/v1?key=***&n="),
        ("https://hush@gpu/v1", "https://***@gpu/v1"),
        ("https://alice:hu@sh@gpu/v1#a", "https://alice:***@gpu/v1#a"),
        ("http://gpu:8000/a@b?c", "http://gpu:8000/a@b?c"),
        ("app.py:embed", "app.py:embed"),
        ("sim:10ms", "sim:10ms"),
    ],
)
def test_the_secrets_of_a_target_are_never_shown(url: str, shown: str) -> None:
    config = load(None, {}, {"model.name": "m", "model.target": url})
    assert {row.key: row.value for row in config.explain()}["models.m.target"] == f'"{shown}"'
    assert "hush" not in repr(config)


def test_of_a_command_only_its_first_word_is_shown(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text("[autoscaler]\ncommand = 'resize --token hush {workers}'\n")
    config = load(tmp_path / "some.toml", {}, {"model.target": "sim:1ms"})
    assert {row.key: row.value for row in config.explain()}["autoscaler.command"] == '"resize ***"'


def test_the_shape_of_an_endpoint_is_explained_only_where_there_is_one() -> None:
    for target, explained in (
        ("sim:0ms", ""),
        ("http://gpu-1:9000", "http"),
        ("grpcs://gpu-1:9000/m", "grpc"),
    ):
        rows = list(load(None, {}, {"model.target": target}).explain())
        for protocol in ("http", "grpc"):
            assert any(f".{protocol}." in row.key for row in rows) is (protocol == explained)


def test_words_in_the_environment_become_what_the_key_wants(file: Path) -> None:
    words = {
        "GROUP_LENGTHS": "yes",
        "GPUS": "3, 4",
        "WARMUP": '["a"]',
        "MAX_COST": "1.5",
        "MEMORY_LIMIT": "1KB",
    }
    environ = {f"PENSTOCK_MODELS_EMBED_{key}": value for key, value in words.items()}
    environ["PENSTOCK_MODELS_EMBED_HTTP_HEADERS"] = '{"X-Key": "k"}'
    model = load(file, environ, {}).models["embed"]
    assert (model.group_lengths, model.gpus, model.warmup) == (True, ("3", "4"), ("a",))
    assert (model.max_cost, model.memory_limit, model.http.headers) == (1.5, 1000, {"X-Key": "k"})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("any", "any"),
        (" powers ", "powers"),
        ("8,1, 4,4", (1, 4, 8)),
        ("[1, 2, 64]", (1, 2, 64)),
    ],
)
def test_sizes_of_batches_are_a_word_or_a_list_in_any_order(
    file: Path, said: str, meant: str | tuple[int, ...]
) -> None:
    environ = {"PENSTOCK_MODEL_TARGET": "sim:1ms", "PENSTOCK_MODEL_BATCH_SIZES": said}
    assert load(None, environ, {}).models["sim"].batch_sizes == meant
    options = {"model.target": "sim:1ms", "model.batch_sizes": said}
    config = load(None, {}, options)
    assert config.models["sim"].batch_sizes == meant
    [setting] = [each for each in config.explain() if each.key == "models.sim.batch_sizes"]
    file.write_text(f'[models.sim]\ntarget = "sim:1ms"\nbatch_sizes = {setting.value}', encoding="utf-8")
    assert load(file, {}, {}).models["sim"].batch_sizes == meant


def test_inputs_to_warm_up_with_may_be_any_json(file: Path) -> None:
    environ = {"PENSTOCK_MODEL_WARMUP": '[{"a": [1, 0.5]}]', "PENSTOCK_MODEL_GPUS": '["GPU-1"]'}
    model = load(file, environ, {"model.input": "json"}).models["embed"]
    assert (model.warmup, model.gpus) == (({"a": [1, 0.5]},), ("GPU-1",))


def test_variables_of_kubernetes_services_are_passed_over() -> None:
    environ = {
        "PENSTOCK_SERVICE_HOST": "10.0.0.7",
        "PENSTOCK_SERVICE_PORT_HTTP": "8000",
        "PENSTOCK_PORT": "tcp://10.0.0.7:8000",
        "PENSTOCK_PORT_8000_TCP_ADDR": "10.0.0.7",
        "PENSTOCK_SERVER_PORT": "tcp://10.0.0.7:8000",
        "PENSTOCK_CONFIG": "x.toml",
        "HOME": "/root",
    }
    assert load(None, environ, {}) == Config()


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("app.py:batchstring", "batchstring"),
        ("package.module:Class.method", "Class.method"),
        ("http://gpu-1:9000/batch", "gpu-1"),
        ("https://[::1]:9000", "1"),
        ("http://[nonsense", "model"),
        ("grpc://gpu-1:8001/embedder", "embedder"),
        ("oip+http://gpu-1:8000/embedder?version=2", "embedder"),
        ("openai://gpu-1/v1", "gpu-1"),
        ("openais://gpu-1/v1?model=BAAI/bge-small", "bge-small"),
        ("tei://gpu-1:8080", "gpu-1"),
        ("sim:100ms", "sim"),
    ],
)
def test_a_target_alone_makes_a_model_named_after_it(target: str, name: str) -> None:
    assert name_after(target) == name
    assert load(None, {}, {"model.target": target}).models == {name: Model(target)}
    assert load(None, {"PENSTOCK_MODEL_TARGET": target}, {}).models == {name: Model(target)}


def test_a_model_can_be_chosen_among_several_or_added_by_name(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[models]\na.target = "sim:1ms"\nb-c.target = "sim:1ms"\n', encoding="utf-8")
    chosen = load(file, {"PENSTOCK_MODELS_B_C_WORKERS": "3"}, {"model.name": "a", "model.workers": 2})
    assert {name: model.workers for name, model in chosen.models.items()} == {"a": 2, "b-c": 3}
    added = load(file, {"PENSTOCK_MODEL_NAME": "d"}, {"model.target": "sim:2ms"})
    assert list(added.models) == ["a", "b-c", "d"]


def test_a_model_falls_back_on_the_common_time_limits(file: Path) -> None:
    config = load(file, {"PENSTOCK_TIMEOUTS_REQUEST": "9s"}, {"model.queue_timeout": "1s"})
    own = config.timeouts_of("embed")
    assert (own.queue, own.processing, own.request) == (1.0, 3.0, 9.0)


def test_the_limits_follow_from_one_time_out_unless_they_are_set() -> None:
    usual = Config().timeouts_of(None)
    assert usual == (2.0, 3.0, 4.0, 60.0, 120.0)
    timeouts = Timeouts(timeout=30.0, queue=1.0)
    models = {
        "a": Model("f"),
        "b": Model("f", timeout=400.0, processing_timeout=7.0),
        "c": Model("f", timeout=400.0, first_batch_timeout=900.0),
    }
    config = Config(timeouts=timeouts, models=models)
    assert config.timeouts_of("a") == (1.0, 22.5, 30.0, 60.0, 120.0)
    assert config.timeouts_of("b") == (200.0, 7.0, 400.0, 400.0, 120.0)
    assert config.timeouts_of("c") == (200.0, 300.0, 400.0, 400.0, 900.0)


def test_a_limit_that_follows_another_setting_says_so(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[timeouts]\ntimeout = "30s"\nqueue = "1s"\n[models]\na.target = "sim:1ms"\nb.target = "sim:1ms"\n'
        'b.timeout = "10s"\nb.queue_timeout = "3s"\n',
        encoding="utf-8",
    )
    rows = {row.key: (row.value, row.source) for row in load(file, {}, {}).explain()}
    assert rows["timeouts.queue"] == ('"1s"', f"{file}:3")
    assert rows["timeouts.processing"] == ('"22.5s"', "follows timeouts.timeout")
    assert rows["models.b.queue_timeout"] == ('"3s"', f"{file}:8")
    assert rows["models.b.request_timeout"] == ('"10s"', "follows models.b.timeout")
    assert rows["models.a.request_timeout"] == ("", "default")
    long = {row.key: (row.value, row.source) for row in Config(timeouts=Timeouts(timeout=240.0)).explain()}
    assert long["timeouts.max_client"] == ('"4min"', "follows timeouts.timeout")
    assert long["timeouts.first_batch"] == ('"3min"', "follows timeouts.timeout")
    usual = {row.key: (row.value, row.source) for row in Config().explain()}
    assert usual["timeouts.processing"] == ('"3s"', "default")


def test_tiers_in_a_file_replace_the_usual_ones_and_tenants_have_theirs(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[tiers]\ndefault = "silver"\nlevels = { gold = { rank = 0, weight = 3 }, silver = { rank = 1 } }\n'
        '[tenants."acme.org"]\ntier = "gold"\n[tenants.other]\n',
        encoding="utf-8",
    )
    config = load(file, {"PENSTOCK_TENANTS_ACME_ORG_TIER": "gold"}, {})
    assert config.tiers.levels == {"gold": Level(0, 3.0), "silver": Level(1, 1.0)}
    assert {name: tenant.tier for name, tenant in config.tenants.items()} == {
        "acme.org": "gold",
        "other": None,
    }
    assert config.tiers.default == "silver"


def test_a_usual_tier_can_be_adjusted_from_the_environment() -> None:
    levels = load(None, {"PENSTOCK_TIERS_LEVELS_FREE_WEIGHT": "2"}, {}).tiers.levels
    assert levels == {**Tiers().levels, "free": Level(2, 2.0, requests_per_minute=1000)}


def test_a_configuration_is_cheap_to_vary_and_can_be_sent_to_a_process() -> None:
    config = replace(Config(), server=Server(port=0), tenants={"acme": Tenant("free")})
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_file_is_the_chosen_one_or_the_environments_or_the_one_at_hand(file: Path) -> None:
    environ = {"PENSTOCK_CONFIG": "other.toml"}
    assert find_file(Path("mine.toml"), environ) == Path("mine.toml")
    assert find_file(None, environ) == Path("other.toml")
    assert find_file(None, {}) == file
    file.unlink()
    assert find_file(None, {}) is None


def test_a_key_stands_on_the_line_where_its_statement_begins() -> None:
    text = 'a.b = 1\n\n# [x]\n[t."u.v"]\nw = """\n[no]\nz = 1\n"""\nin = { k = [\n1 ] }\n[last]'
    lines = key_lines(text)
    assert lines[("a", "b")] == 1
    assert lines[("t", "u.v")] == 4
    assert lines[("t", "u.v", "w")] == 5
    assert lines[("t", "u.v", "in", "k")] == 9
    assert lines[("last",)] == 11
    assert ("t", "u.v", "z") not in lines


@pytest.mark.parametrize(
    "value", ["plain", 'a "b"', 'it\'s "x"', "\x7f\n\\", {"a b": [1, True, {"c": 0.5}]}, {}]
)
def test_a_value_written_as_toml_reads_back_the_same(value: object) -> None:
    assert tomllib.loads(f"x = {toml(value)}") == {"x": value}


@pytest.mark.parametrize(
    ("text", "options", "workers"),
    [
        ("gpus = [0, 1, 2]", {}, 3),
        ("gpus = [0, 1, 2]\nworkers = 6", {}, 6),
        ("gpus = []", {}, 1),
        ("", {"model.gpus": "0,1"}, 2),
        ("workers = 1", {"model.gpus": "0,1"}, 1),
        ("gpus = [0, 1, 2]", {"model.workers": 1}, 1),
    ],
)
def test_there_is_a_worker_for_each_gpu_unless_their_number_is_said(
    text: str, options: dict[str, object], workers: int, tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text(f"[models.m]\ntarget = 'sim:1ms'\n{text}\n")
    assert load(tmp_path / "penstock.toml", {}, options).models["m"].workers == workers


def test_the_number_of_a_slot_in_the_environment_is_no_setting() -> None:
    assert load(None, {"PENSTOCK_SLOT": "3"}, {}) == Config()
