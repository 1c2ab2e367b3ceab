"""The client's options: a bad value is named and never stops an engine."""

import pytest

from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S
from sched_client.options import DEFAULT_TARGET, ClientOptions, read_options


def test_defaults_need_no_configuration() -> None:
    options = read_options(None, {})
    assert options == ClientOptions()
    assert options.target == DEFAULT_TARGET
    assert options.mode == "auto"


def test_variables_win_over_additional_config() -> None:
    config = {"kappad": {"target": "127.0.0.1:1", "mode": "on", "prior_kappa": 5}}
    options = read_options(config, {"KAPPAD_TARGET": "127.0.0.1:2", "KAPPAD_TRUST_HINTS": "yes"})
    assert options.target == "127.0.0.1:2"
    assert options.mode == "on"
    assert options.prior_kappa == 5.0
    assert options.trust_hints is True
    assert options.problems == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "fast"),
        ("prior_kappa", "nan"),
        ("prior_kappa", -1),
        ("prior_kappa", True),
        ("prior_kappa", [1]),
        ("stale_fcfs_after_s", "0"),
        ("trust_hints", "perhaps"),
        ("target", " "),
    ],
)
def test_a_refused_value_is_named_and_replaced_by_its_default(name: str, value: object) -> None:
    options = read_options({"kappad": {name: value}}, {})
    assert getattr(options, name) == getattr(ClientOptions(), name)
    assert len(options.problems) == 1
    assert name in options.problems[0]


def test_an_unknown_option_is_named() -> None:
    (problem,) = read_options({"kappad": {"modus": "on"}}, {}).problems
    assert "modus" in problem
    assert "mode" in problem


def test_mode_off_written_as_yaml_false_means_off() -> None:
    assert read_options({"kappad": {"mode": False}}, {}).mode == "off"


@pytest.mark.parametrize("config", [None, 3, "kappad", {"kappad": 3}, {"kappad": None}, object()])
def test_a_config_of_another_shape_is_ignored(config: object) -> None:
    assert read_options(config, {}).prior_kappa == DEFAULT_KAPPA_TOKENS_PER_S
