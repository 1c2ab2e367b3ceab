"""Where settings come from, and what a bad one is answered with."""

import math
from dataclasses import fields
from pathlib import Path

import pytest

from estimator.runtime.config import ConfigError, ServeConfig, load_config, unknown_variables
from sched_client.model import Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ServeConfig.model_fields:
        monkeypatch.delenv(f"KAPPAD_SERVE_{name.upper()}", raising=False)


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kappad.toml"
    file.write_text('mode = "on"\nphi = 0.1\nbatch_limit = 7\n')
    monkeypatch.setenv("KAPPAD_SERVE_PHI", "0.2")
    monkeypatch.setenv("KAPPAD_SERVE_BATCH_LIMIT", "8")
    config = load_config(config_file=file, flags={"batch_limit": 9, "http": None})
    assert (config.batch_limit, config.phi, config.mode) == (9, 0.2, "on")
    assert (config.policy, config.between) == ("ewsjf", "halves")
    assert config.settings().mode == "on"


def test_a_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kappad.toml"
    file.write_text("phi = 0.11\n")
    monkeypatch.setenv("KAPPAD_SERVE_CONFIG", str(file))
    assert load_config().phi == 0.11


def test_a_variable_that_is_no_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MDOE", "MODE", "CONFIG"):
        monkeypatch.setenv(f"KAPPAD_SERVE_{name}", "off")
    assert unknown_variables() == ["KAPPAD_SERVE_MDOE"]


def test_a_guard_can_be_switched_off_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPAD_SERVE_GUARD_S", "off")
    assert load_config().guard_s is None
    monkeypatch.setenv("KAPPAD_SERVE_GUARD_S", "30")
    assert load_config().guard_s == 30.0


def test_what_is_not_configured_is_as_in_the_settings_own_defaults() -> None:
    assert load_config().settings() == Settings()


def test_every_setting_can_be_configured_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Settings(
        mode="on",
        policy="hrrn",
        order_by="tokens",
        phi=0.125,
        burst_requests=3.5,
        guard_s=40.0,
        reorder_above=5,
        reorder_until=3,
        within="score",
        between="ratio",
        w_urgency=2.5,
        w_fairness=0.125,
        aging_rate=0.5,
        aging_power=1.5,
        short_share=0.25,
        short_share_most=0.75,
        tier_weight=4.0,
        preemption="least_lost",
    )
    for one in fields(Settings):
        value = getattr(asked, one.name)
        assert value != one.default, f"{one.name} would not be noticed"
        monkeypatch.setenv(f"KAPPAD_SERVE_{one.name.upper()}", str(value))
    assert load_config().settings() == asked


@pytest.mark.parametrize(("above", "until"), [(0, 0), (1, 1), (6, 6), (40, 6)])
def test_whoever_sets_one_end_of_reordering_alone_is_not_refused_for_the_other(
    above: int, until: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kappad.toml"
    file.write_text(f"reorder_above = {above}\n")
    monkeypatch.setenv("KAPPAD_SERVE_REORDER_ABOVE", str(above))
    for config in (
        load_config(),
        load_config(config_file=file),
        load_config(flags={"reorder_above": above}),
    ):
        assert (config.settings().reorder_above, config.settings().reorder_until) == (above, until)


def test_a_tier_weight_can_be_infinite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kappad.toml"
    file.write_text("tier_weight = inf\n")
    assert load_config(config_file=file).tier_weight == math.inf
    monkeypatch.setenv("KAPPAD_SERVE_TIER_WEIGHT", "inf")
    assert load_config().tier_weight == math.inf


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"phi": 1.0}, ("phi=1.0", "less than 1", "KAPPAD_SERVE_PHI")),
        ({"prior_kappa": float("nan")}, ("prior_kappa=nan", "KAPPAD_SERVE_PRIOR_KAPPA")),
        ({"mode": "maybe"}, ("mode='maybe'", "'shadow'")),
        ({"batch_limit": 0}, ("batch_limit=0", "greater than or equal to 1")),
        ({"burst_requests": float("inf")}, ("burst_requests=inf", "finite")),
        ({"reorder_above": 65}, ("reorder_above=65", "less than or equal to 64")),
        (
            {"reorder_above": 1, "reorder_until": 2},
            ("reorder_until=2", "reorder_above=1", "lower it"),
        ),
        ({"reorder_until": -1}, ("reorder_until=-1", "greater than or equal to 0")),
        ({"within": "sjf"}, ("within='sjf'", "'fcfs' or 'score'", "KAPPAD_SERVE_WITHIN")),
        ({"between": ""}, ("between=''", "'score', 'ratio', 'shortest' or 'halves'")),
        ({"w_urgency": -1.0}, ("w_urgency=-1.0", "greater than or equal to 0")),
        ({"w_fairness": float("nan")}, ("w_fairness=nan",)),
        ({"aging_rate": float("inf")}, ("aging_rate=inf", "less than or equal to 1000000000")),
        ({"aging_power": 4.5}, ("aging_power=4.5", "less than or equal to 4")),
        ({"short_share": 1.5}, ("short_share=1.5", "less than or equal to 1")),
        ({"tier_weight": 0.5}, ("tier_weight=0.5", "greater than or equal to 1")),
        ({"tier_weight": 2e6}, ("tier_weight=2000000.0", "at most 1e+06, or inf")),
        ({"preemption": "first"}, ("preemption='first'", "'last' or 'least_lost'")),
        ({"backlog_limit": 2**31}, (f"backlog_limit={2**31}", f"equal to {2**31 - 1}")),
        ({"key_limit": 2**31}, (f"key_limit={2**31}", f"equal to {2**31 - 1}")),
        ({"state_dir": ""}, ("state_dir=''", "at least 1 character")),
        ({"policy": "sfj"}, ("policy='sfj'", "hrrn", "KAPPAD_SERVE_POLICY")),
        ({"no_such": 1}, ("no_such is no setting", "phi")),
        ({"backlog_limit": 10}, ("backlog_limit=10", "batch_limit=1024", "raise it")),
        ({"listen": "unix:run/k.sock"}, ("absolute", "unix:///")),
        ({"listen": "unix:///" + "x" * 120}, ("121 bytes", "107", "shorter")),
        ({"listen": "unix:///run/"}, ("names no file",)),
        ({"listen": "0.0.0.0:50051"}, ("0.0.0.0:50051", "other machines", "allow_remote")),
        ({"http": "example.org:9464"}, ("http=", "allow_remote")),
        ({"http": "9464"}, ("host:port",)),
        ({"http": "127.0.0.1:70000"}, ("65535",)),
        ({"http": "::1:9464"}, ("brackets",)),
    ],
)
def test_a_bad_value_is_named_with_its_limit_and_remedy(
    flags: dict[str, object], words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(flags=flags)
    for word in words:
        assert word in str(caught.value)


def test_several_bad_values_are_all_named() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(flags={"phi": 2.0, "burst_requests": -1.0})
    assert len(str(caught.value).splitlines()) == 2


def test_a_remote_address_is_taken_when_asked_for() -> None:
    config = load_config(flags={"listen": "0.0.0.0:50051", "allow_remote": True})
    assert config.listen == "0.0.0.0:50051"


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:1", "[::1]:2", "unix:/run/k.sock"])
def test_local_addresses_are_taken(listen: str) -> None:
    assert load_config(flags={"listen": listen}).listen == listen


def test_a_file_that_is_absent_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load_config(config_file=tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("phi = = 1")
    with pytest.raises(ConfigError, match=r"broken\.toml.*TOML"):
        load_config(config_file=broken)
