"""What is drawn of κ's history, and which changes stand under it."""

import pytest

from estimator.cli import kappa
from estimator.core.drift_event import DriftEvent
from estimator.store.base import KappaPoint
from sched_client.model import Key

EN = Key("base", "transcribe", "en")


def point(recorded_s: float, value: float) -> KappaPoint:
    return KappaPoint(
        model=EN.model, task=EN.task, language=EN.language, timestamps=None,
        recorded_s=recorded_s, kappa_tokens_per_s=value, intercept_tokens=2.0, sample_count=9,
        snapshot_version=1,
    )  # fmt: skip


def event(number: int, detected_s: float, *, key: Key = EN, kind: str = "kappa") -> DriftEvent:
    return DriftEvent(
        event_id=f"e-{number}", kind=kind, model=key.model, task=key.task,  # type: ignore[arg-type] # a literal's value
        language=key.language, timestamps=key.timestamps, detected_s=detected_s,
        before=3.0 + number, after=4.56789,
    )  # fmt: skip


def marks(events: list[DriftEvent], capsys: pytest.CaptureFixture[str]) -> list[str]:
    points = [point(1_000.0 + n, 3.0 + n % 3) for n in reversed(range(100))]
    kappa._show_history(points, events, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("base/transcribe/en: κ 3.000 tokens/s, +2.0 tokens, 9 samples")
    assert max(map(len, lines)) <= 80
    return [line.strip() for line in lines if "drift" in line]


def test_changes_of_the_key_in_the_charts_time_stand_under_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [
        event(1, 1_050.0),
        event(2, 999.0),
        event(3, 1_100.0),
        event(4, 1_050.0, key=Key("base")),
        event(5, 1_050.0, kind="mix"),
    ]
    (line,) = marks(events, capsys)
    assert line.endswith(": 4 to 4.57")


def test_many_changes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = marks([event(n, 1_000.0 + n) for n in range(9)], capsys)
    assert len(lines) == 6
    assert lines[-1] == "4 more; see `kappad drift`"
