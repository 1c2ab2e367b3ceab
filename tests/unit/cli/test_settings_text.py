"""Settings read from words and shown in words."""

import json
import math
from dataclasses import fields

import pytest

from estimator.cli.settings_text import document_of, order_words, tier_words, with_texts
from sched_client.model import Settings

SAID = {
    "mode": "on",
    "policy": "hrrn",
    "order_by": "tokens",
    "phi": "0.125",
    "burst_requests": "inf",
    "guard_s": "40",
    "reorder_above": "5",
    "reorder_until": "3",
    "within": "score",
    "between": "ratio",
    "w_urgency": "2.5",
    "w_fairness": "0.125",
    "aging_rate": "0.5",
    "aging_power": "1.5",
    "short_share": "0.25",
    "short_share_most": "0.75",
    "tier_weight": "4",
    "preemption": "least_lost",
}


def test_every_setting_can_be_said_and_is_shown() -> None:
    assert set(SAID) == {one.name for one in fields(Settings)}
    settings = with_texts(Settings(), [f"{k}={v}" for k, v in SAID.items()], fixed=())
    shown = json.loads(json.dumps(document_of(settings), allow_nan=False))
    assert shown.pop("burst_requests") is None
    for name, value in shown.items():
        assert str(value).removesuffix(".0") == SAID[name]
        assert value != getattr(Settings(), name), f"{name} would not be noticed"


def test_the_last_of_two_wins_and_a_guard_can_be_left_out() -> None:
    settings = with_texts(Settings(guard_s=3.0), ["phi=0.1", "guard_s=off", "phi=0.2"], fixed=())
    assert (settings.phi, settings.guard_s) == (0.2, None)


def test_lowering_one_end_of_reordering_lowers_the_other_unless_that_is_said() -> None:
    assert with_texts(Settings(), ["reorder_above=1"], fixed=()).reorder_until == 1
    assert with_texts(Settings(), ["reorder_above=9"], fixed=()).reorder_until == 6
    with pytest.raises(ValueError, match=r"reorder_until: 3 is not in \[0, 1\]"):
        with_texts(Settings(), ["reorder_until=3", "reorder_above=1"], fixed=())
    with pytest.raises(ValueError, match="reorder_above: -1"):
        with_texts(Settings(), ["reorder_above=-1"], fixed=())


@pytest.mark.parametrize("text", ["policy=sjf", "nothing=1", "=1"])
def test_a_name_that_cannot_be_said_lists_those_that_can(text: str) -> None:
    with pytest.raises(ValueError, match=r"is none of mode, order_by, .*preemption$"):
        with_texts(Settings(), [text], fixed=("policy",))


def test_scores_and_tiers_are_told_in_words() -> None:
    settings = Settings(within="score", between="ratio", w_fairness=2.0, aging_power=1.0)
    told = order_words(settings)
    assert told.startswith("within score, between ratio (urgency 1, fairness 2,")
    assert "first" in tier_words(Settings(tier_weight=math.inf))
    assert "× 3 a step" in tier_words(Settings(tier_weight=3.0))
    assert "lost work" in tier_words(Settings(preemption="least_lost"))


def test_halves_are_told_by_their_share() -> None:
    told = order_words(Settings(between="halves", short_share=0.4, short_share_most=0.5))
    assert told == "the shorter 40% to 50% of arrivals first, each half by arrival"
    told = order_words(Settings(between="halves", short_share=0.4, short_share_most=0.0))
    assert told == "the shorter 40% of arrivals first, each half by arrival"
