"""Each mistake is refused in one line that names the place and what would do."""

from pathlib import Path

import pytest

from penstock.config import (
    Config,
    GrpcEndpoint,
    HttpEndpoint,
    Level,
    Limits,
    Model,
    Redis,
    Server,
    Tiers,
    Timeouts,
    doubts,
    load,
)
from penstock.errors import UserMistake

ONE = '[models.x]\ntarget = "sim:1ms"\n'
TWO = ONE + '[models.y]\ntarget = "sim:1ms"\n'


def mistake(
    tmp_path: Path,
    text: str,
    environ: dict[str, str] | None = None,
    overrides: dict[str, object] | None = None,
) -> str:
    """What `load` says, with the file called penstock.toml."""
    file = tmp_path / "penstock.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserMistake) as caught:
        load(file, environ or {}, overrides or {})
    assert "\n" not in caught.value.message
    return caught.value.message.replace(str(file), "penstock.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ONE + "max_bacth = 3",
            "penstock.toml:3: unknown key 'max_bacth' in [models.x]; did you mean 'max_batch'?",
        ),
        (
            "[server]\nport = 1234\ngrpc_port = 1234",
            "penstock.toml:3: server.grpc_port must differ from server.port, which is 1234 too",
        ),
        (
            "[server]\ngrpc_port = 1\n[tls]\ncertificate = 'a'\nhttp2 = false",
            "penstock.toml:5: tls.http2 must be true where there is a server.grpc_port: gRPC is HTTP/2",
        ),
        ("[sevrer]", "penstock.toml:1: unknown key 'sevrer'; did you mean 'server'?"),
        ("[server]\nzzz = 1", "penstock.toml:2: unknown key 'zzz' in [server]"),
        (
            "[tiers.gold]\nweight = 2",
            "penstock.toml:1: unknown key 'gold' in [tiers]; did you mean [tiers.levels.gold]?",
        ),
        ("[models.x]", "[models.x] needs 'target', a text that is not empty"),
        (
            "[server]\ncors_origins = ['https://app.example/']",
            'penstock.toml:2: server.cors_origins must be a list of origins such as ["https://app.example"],'
            ' or ["*"] for all, not ["https://app.example/"]',
        ),
        (
            'models.a = { target = "f", default = true }\nmodels.b = { target = "g", default = true }',
            "penstock.toml:2: models.b.default is true, and models.a.default is true as well: mark one model only",
        ),
        ("server = 1", "penstock.toml:1: server must be a table, [server], not 1"),
        ("models.x = 'app.py:f'", 'penstock.toml:1: models.x must be a table, [models.x], not "app.py:f"'),
        (
            "[server]\nport = '8000'",
            'penstock.toml:2: server.port must be a whole number from 0 to 65535, not "8000"',
        ),
        (
            "server.port = 70000",
            "penstock.toml:1: server.port must be a whole number from 0 to 65535, not 70000",
        ),
        (
            "server.port = true",
            "penstock.toml:1: server.port must be a whole number from 0 to 65535, not true",
        ),
        (
            ONE + "group_lengths = 1",
            "penstock.toml:3: models.x.group_lengths must be true or false, not 1",
        ),
        ("server.host = ' '", 'penstock.toml:1: server.host must be a text that is not empty, not " "'),
        (
            "tiers.order = 'wieghted'",
            'penstock.toml:1: tiers.order must be one of "weighted", "strict", not "wieghted"',
        ),
        (
            "retries.budget_ratio = 2",
            "penstock.toml:1: retries.budget_ratio must be a number from 0 to 1, not 2",
        ),
        (ONE + "max_cost = 0", "penstock.toml:3: models.x.max_cost must be a number above 0, not 0"),
        (
            "timeouts.queue = '5 M'",
            'penstock.toml:1: timeouts.queue must be a duration such as "50ms", "2s" or "10min"',
        ),
        (
            "limits.max_body = 2024-01-01",
            'penstock.toml:1: limits.max_body must be a size such as "64KiB", "1MiB", "2GB",'
            " or a number of bytes, above 0, not 2024-01-01",
        ),
        (
            ONE + "warmup = [1]\ninput = 'text'",
            "penstock.toml:3: models.x.warmup must be a text or a list of texts: this model takes text, and other"
            ' values with input = "json"',
        ),
        (
            ONE + "warmup = [nan]",
            "penstock.toml:3: models.x.warmup must be an input, a list of inputs, or false, not [nan]",
        ),
        (
            ONE + "gpus = [1.5]",
            'penstock.toml:3: models.x.gpus must be a list of ids such as [0, 1] or ["GPU-5d3f…"], not [1.5]',
        ),
        (ONE + "reserve = 1", "penstock.toml:3: models.x.reserve must be below the number of workers, 1"),
        ('[models."a/b"]\ntarget = "f"', "models.\"a/b\" needs a name of letters, digits, '.', '_' and '-'"),
        ("server.port = 9000", "server.admin_port must differ from server.port, which is 9000 too"),
        ("retries.base = '2s'", "penstock.toml:1: retries.base must not be above retries.max, 1s"),
        (
            "tenants.acme.tier = 'padi'",
            "penstock.toml:1: tenants.acme.tier is 'padi', which is not a tier (enterprise, paid, free);"
            " did you mean 'paid'?",
        ),
        ("tiers.levels.gold.weight = 1", "[tiers.levels.gold] needs 'rank', a whole number of at least 0"),
        ("[tiers.levels]", "tiers.default is 'paid', which is not a tier (none)"),
        (
            "tiers.default = 'a'\n[tiers.levels]\na.rank = 1\nb.rank = 1",
            "penstock.toml:3: tiers.levels.a.rank is 1, and so is another tier's",
        ),
        (
            "tiers.critical = 50",
            "tiers.warning must not be above tiers.critical, 50",
        ),
        (
            "retries.budget_per_second = -1",
            "penstock.toml:1: retries.budget_per_second must be a number of at",
        ),
        (ONE + "max_wait = 50", "penstock.toml:3: models.x.max_wait: 50 has no unit: write 50ms or 50s"),
        ("timeouts.queue = '50'", "penstock.toml:1: timeouts.queue: 50 has no unit: write 50ms or 50s"),
        ("timeouts.queue = 0", "penstock.toml:1: timeouts.queue must be a duration"),
        ("limits.max_body = 0", "penstock.toml:1: limits.max_body must be a size"),
        ("tiers.order = 1", "penstock.toml:1: tiers.order must be one of"),
        (ONE + "gpus = 3", "penstock.toml:3: models.x.gpus must be a list of ids"),
        (ONE + "gpus = ['']", "penstock.toml:3: models.x.gpus must be a list of ids"),
        ("server.port =", "penstock.toml: is not valid TOML: "),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    said = mistake(tmp_path, text)
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        (
            "",
            {"PENSTOCK_SERVER_PROT": "1"},
            "unknown environment variable 'PENSTOCK_SERVER_PROT'; did you mean 'PENSTOCK_SERVER_PORT'?",
        ),
        ("", {"PENSTOCK_FOO": "1"}, "unknown environment variable 'PENSTOCK_FOO'"),  # like none of them
        (
            "",
            {"PENSTOCK_SERVER_PORT": "many"},
            'PENSTOCK_SERVER_PORT: server.port must be a whole number from 0 to 65535, not "many"',
        ),
        (
            ONE,
            {"PENSTOCK_MODEL_GROUP_LENGTHS": "maybe"},
            'PENSTOCK_MODEL_GROUP_LENGTHS: models.x.group_lengths must be true or false, not "maybe"',
        ),
        (
            ONE,
            {"PENSTOCK_MODEL_WORKERS": "1", "PENSTOCK_MODELS_X_WORKERS": "2"},
            "PENSTOCK_MODELS_X_WORKERS and PENSTOCK_MODEL_WORKERS both set models.x.workers: keep one",
        ),
        (
            'models.a-b.target = "f"\nmodels.a_b.target = "g"',
            {"PENSTOCK_MODELS_A_B_WORKERS": "1"},
            "environment variable 'PENSTOCK_MODELS_A_B_WORKERS' could mean"
            " models.a-b.workers and models.a_b.workers: set that in the file",
        ),
        (
            TWO,
            {"PENSTOCK_MODEL_WORKERS": "1"},
            "PENSTOCK_MODEL_WORKERS is for one model and there are 2 (x, y): choose one with --model NAME",
        ),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(
    tmp_path: Path, text: str, environ: dict[str, str], message: str
) -> None:
    assert mistake(tmp_path, text, environ) == message


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("", {"server.prot": 1}, "unknown setting 'server.prot'; did you mean 'server.port'?"),
        ("", {"server.port": "x"}, '--port: server.port must be a whole number from 0 to 65535, not "x"'),
        (
            "",
            {"model.workers": 2},
            "--workers: there is no model yet; give a TARGET, or a [models.NAME] in the file",
        ),
        (
            TWO,
            {"model.target": "f"},
            "TARGET is for one model and there are 2 (x, y): choose one with --model NAME",
        ),
        (
            '[models.embed]\ntarget = "f"',
            {"model.name": "embde"},
            "there is no model 'embde'; did you mean 'embed'?",
        ),
        (
            ONE,
            {"model.batch_sizes": "squares"},
            '--batch-sizes: models.x.batch_sizes must be "any", "powers" or a list of sizes from 1 to 65536,'
            ' such as [1, 2, 4, 8], not "squares"',
        ),
        (
            ONE,
            {"model.batch_sizes": "16,1,8", "model.max_batch": 10},
            "--batch-sizes: models.x.batch_sizes goes up to 16, and models.x.max_batch is 10:"
            " raise max_batch, or leave the larger sizes out",
        ),
        (
            ONE,
            {"model.cost": ":f"},
            '--cost: models.x.cost must be one of "requests", "characters", "bytes", "tokens",'
            ' or "module:function", or "file.py:function", not ":f"',
        ),
    ],
)
def test_a_mistake_on_the_command_line_names_the_option(
    tmp_path: Path, text: str, overrides: dict[str, object], message: str
) -> None:
    assert mistake(tmp_path, text, overrides=overrides) == message


@pytest.mark.parametrize(
    "headers", ['{"X": "hush\\n"}', '{"X Y": "hush"}', '{"X": ["hush"]}', '["hush"]', "hush"]
)
def test_a_wrong_header_is_refused_without_showing_its_value(tmp_path: Path, headers: str) -> None:
    said = mistake(tmp_path, ONE, {"PENSTOCK_MODEL_HTTP_HEADERS": headers})
    assert said.startswith(
        "PENSTOCK_MODEL_HTTP_HEADERS: models.x.http.headers must be header names and texts"
    )
    assert "hush" not in said


def test_a_long_value_is_cut_short_in_the_refusal(tmp_path: Path) -> None:
    assert len(mistake(tmp_path, f"server.port = '{'x' * 10_000}'")) < 200


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "there is no such file"), (b"\xff", "is not UTF-8 text (byte 0)")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "penstock.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserMistake, match="penstock") as caught:
        load(file, {}, {})
    assert caught.value.message == f"{file}: {complaint}"
    with pytest.raises(UserMistake, match="cannot be read"):
        load(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("config", "doubt"),
    [
        (Config(), "no model"),
        (Config(server=Server(admin_host="0.0.0.0")), 'server.admin_host is "0.0.0.0"'),
        (Config(server=Server(host="::")), 'server.host is "::" and there is no tls.certificate'),
        (Config(server=Server(cors_origins=("*",))), 'server.cors_origins is "*" and nobody'),
        (
            Config(models={"x": Model("f", processing_timeout=4.0)}),
            "models.x.processing_timeout (4s) is not shorter than timeouts.request (4s, follows timeouts.timeout)",
        ),
        (
            Config(models={"x": Model("f", timeout=10.0, request_timeout=5.0)}),
            "timeouts.processing (7.5s, follows models.x.timeout) is not shorter than models.x.request_timeout",
        ),
        (
            Config(models={"x": Model("f")}, tiers=Tiers(levels={"paid": Level(0, request_timeout=1.0)})),
            "timeouts.processing (3s, follows timeouts.timeout) is not shorter than tiers.levels.paid.",
        ),
        (
            Config(models={"x": Model("f")}, timeouts=Timeouts(queue=4.0)),
            "timeouts.queue (4s) is not shorter than timeouts.request (4s, follows",
        ),
        (
            Config(
                models={"x": Model("f")}, redis=Redis(lease=3.0), sources={"redis.lease": "penstock.toml:1"}
            ),
            "redis.lease (3s) and retries.max (1s) together are not shorter than timeouts.request",
        ),
        (Config(models={"x": Model("f", max_wait=3.0)}), "models.x.max_wait is 3s"),
        (Config(models={"x": Model("f")}, limits=Limits(max_queue=10)), "models.x.max_batch is above"),
        (
            Config(
                models={"x": Model("f", max_batch=32, batch_sizes=(1, 8))},
                sources={"models.x.max_batch": "penstock.toml:3"},
            ),
            "models.x.max_batch is 32, but no batch is larger than the largest of models.x.batch_sizes, 8",
        ),
        (Config(models={"x": Model("f", gpus=("0", "1"))}), "models.x.gpus lists 2 GPUs for 1 workers"),
        (
            Config(models={"x": Model("f", batch_cost="padded")}),
            "models.x.batch_cost is set, but models.x.max_cost",
        ),
        (Config(models={"x": Model("f", cache="shared")}), "models.x.cache is set, but"),
        (Config(models={"x": Model("f", http=HttpEndpoint(item="a"))}), "models.x.http is set"),
        (Config(models={"x": Model("f", grpc=GrpcEndpoint(version="1"))}), "models.x.grpc is set"),
    ],
)
def test_a_doubtful_setting_is_remarked_upon(config: Config, doubt: str) -> None:
    assert any(remark.startswith(doubt) for remark in doubts(config))


def test_an_ordinary_configuration_raises_no_doubts() -> None:
    assert list(doubts(Config(models={"x": Model("app.py:f")}))) == []
    assert list(doubts(Config(models={"x": Model("app.py:f", batch_sizes=(1, 2, 4))}))) == []


@pytest.mark.parametrize("sizes", ["[]", "[0, 1]", "[1.5]", "[true]", "4", '["a"]', '"1,2"', "[70000]"])
def test_sizes_that_no_batch_can_have_are_refused(tmp_path: Path, sizes: str) -> None:
    assert mistake(tmp_path, f"{ONE}batch_sizes = {sizes}").startswith(
        'penstock.toml:3: models.x.batch_sizes must be "any", "powers" or a list of sizes from 1 to 65536'
    )


def test_a_doubt_about_redis_is_for_those_who_use_it() -> None:
    config = Config(models={"x": Model("f"), "y": Model("f")}, timeouts=Timeouts(timeout=1.0))
    assert doubts(config) == []
    (told,) = doubts(config, over_redis=True)  # once, although it holds of both models
    assert told.startswith("redis.lease")


def test_a_number_without_a_unit_on_the_command_line_is_answered_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match=r"^--max-wait: 50 has no unit: write 50ms or 50s$"):
        load(None, {}, {"model.target": "sim:1ms", "model.max_wait": "50"})
    said = mistake(tmp_path, "", {"PENSTOCK_TIMEOUTS_QUEUE": "2"})
    assert said == "PENSTOCK_TIMEOUTS_QUEUE: timeouts.queue: 2 has no unit: write 2ms or 2s"
