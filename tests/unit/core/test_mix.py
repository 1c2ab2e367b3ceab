import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from estimator.core.config import CoreConfig
from estimator.core.drift import Change
from estimator.core.mix import MixTable, MixWatch
from estimator.core.shares import ShareWatch
from tests.support.completions import completion_of

Request = tuple[float | None, str, str]


def requests(
    n: int, *, seed: int = 0, length: float = 6.0, shares: dict[str, float] | None = None
) -> list[Request]:
    rng = random.Random(seed)
    names, weights = zip(*(shares or {"en": 0.8, "de": 0.2}).items(), strict=True)
    return [
        (length * rng.lognormvariate(0.0, 0.7), rng.choices(names, weights)[0], "transcription")
        for _ in range(n)
    ]


def feed(watch: MixWatch, rows: Iterable[Request]) -> list[tuple[int, Change]]:
    found = [(i, watch.update(*row)) for i, row in enumerate(rows)]
    return [(i, change) for i, change in found if change is not None]


def test_nothing_is_seen_where_nothing_changes() -> None:
    for seed in range(3):
        assert feed(MixWatch(CoreConfig()), requests(20_000, seed=seed)) == []


def test_longer_audio_is_one_event_that_ends() -> None:
    watch = MixWatch(CoreConfig())
    assert feed(watch, requests(300)) == []
    found = feed(watch, requests(400, seed=1, length=14.0))
    assert [change.begun for _, change in found] == [True, False]
    (index, begun), (_, ended) = found
    assert index < 60
    assert begun.detail == ended.detail == "audio seconds"
    assert begun.before == pytest.approx(7.7, rel=0.2)
    assert ended.after == pytest.approx(17.9, rel=0.2)
    assert begun.z > 4.5
    assert ended.completions >= 64


@pytest.mark.parametrize(
    ("shares", "names"),
    [
        ({"en": 0.2, "de": 0.8}, {"de", "en"}),
        ({"fr": 1.0}, {"fr", "en"}),
        ({"en": 0.5, "de": 0.1, "fr": 0.4}, {"fr"}),
    ],
)
def test_a_language_that_moves_is_named_with_its_shares(
    shares: dict[str, float], names: set[str]
) -> None:
    watch = MixWatch(CoreConfig())
    feed(watch, requests(400))
    (index, begun), *rest = feed(watch, requests(400, seed=1, shares=shares))
    assert index < 150
    assert begun.detail.removeprefix("share of language ") in names
    assert 0.0 <= begun.before <= 1.0
    assert 0.0 <= begun.after <= 1.0
    assert abs(begun.after - begun.before) > 0.2
    assert [change.begun for _, change in rest] == [False]


def test_a_new_request_type_is_seen_without_any_audio() -> None:
    watch = MixWatch(CoreConfig())
    assert feed(watch, [(None, "", "chat")] * 200) == []
    found = feed(watch, [(None, "", "summary")] * 200)
    assert [(change.begun, change.detail) for _, change in found] == [
        (True, "share of request type summary"),
        (False, "share of request type summary"),
    ]
    assert (found[0][1].before, found[0][1].after) == (0.0, 1.0)
    assert found[0][0] < 60


def test_names_without_end_are_bounded() -> None:
    watch = ShareWatch()
    for i in range(2_000):
        watch.update([f"l{i}"])
    assert len(watch.counts_) <= 32
    assert len(watch.shares_) <= 7


@pytest.mark.parametrize("n", [0, 5, 60, 64, 100, 303, 330, 420])
def test_state_round_trip_continues_alike(n: int) -> None:
    rows = [*requests(300), *requests(300, seed=1, length=14.0, shares={"fr": 0.5, "de": 0.5})]
    live = MixWatch(CoreConfig())
    feed(live, rows[:n])
    state = json.loads(json.dumps(live.state(), allow_nan=False))
    restored = MixWatch(CoreConfig()).restore(state)
    assert feed(restored, rows[n:]) == feed(live, rows[n:])
    assert json.dumps(restored.state()) == json.dumps(live.state())


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "detection"},
        {"kind": "beam_step"},
        {"kind": "session"},
        {"finish_reason": "error"},
    ],
)
def test_parts_of_requests_are_no_requests(fields: dict[str, Any]) -> None:
    table = MixTable(CoreConfig())
    for i in range(100):
        assert table.update(completion_of(i, 5.0, 20, **fields)) is None
    assert table.state() == []


def test_models_are_bounded_and_an_open_event_leaves_with_its_model() -> None:
    table = MixTable(CoreConfig(max_models=2))
    changes = [
        table.update(completion_of(i, 3.0 if i < 200 else 20.0, 20, model="a")) for i in range(240)
    ]
    assert [change.begun for change in changes if change is not None] == [True]
    for model in ("b", "c"):
        table.update(completion_of(0, 5.0, 20, model=model))
    assert [model for model, _ in table.state()] == ["b", "c"]
    assert table.take_evicted_while_open() == ["a"]
    assert table.take_evicted_while_open() == []
