"""Which points of κ's history are kept."""

from estimator.runtime.delta import SnapshotDelta
from estimator.runtime.kappa_history import KappaHistory
from sched_client.model import KappaEntry, Key, prior_snapshot

_KEY = Key("a", "transcribe", "en")


def _delta(kappa: float, *, removed: frozenset[Key] = frozenset()) -> SnapshotDelta:
    entry = KappaEntry(kappa_tokens_per_s=kappa, sample_count=7)
    return SnapshotDelta(
        base_version=1, version=2, kappas={} if removed else {_KEY: entry}, removed=removed
    )


def test_a_new_key_is_recorded_with_the_version_that_carried_it() -> None:
    history = KappaHistory(5.0)
    (point,) = history.due(_delta(3.0), version=2, now_s=100.0)
    assert (point.model, point.language, point.kappa_tokens_per_s) == ("a", "en", 3.0)
    assert (point.snapshot_version, point.recorded_s, point.sample_count) == (2, 100.0, 7)


def test_a_move_below_one_percent_is_not_recorded() -> None:
    history = KappaHistory(5.0)
    history.due(_delta(3.0), version=2, now_s=100.0)
    assert history.due(_delta(3.02), version=3, now_s=200.0) == []
    assert len(history.due(_delta(3.05), version=4, now_s=300.0)) == 1


def test_a_move_within_the_interval_is_held_and_kept_in_the_end() -> None:
    history = KappaHistory(5.0)
    history.due(_delta(3.0), version=2, now_s=100.0)
    assert history.due(_delta(4.0), version=3, now_s=101.0) == []
    (point,) = history.due(None, version=3, now_s=105.0)
    assert point.kappa_tokens_per_s == 4.0
    assert history.due(None, version=3, now_s=999.0) == []
    history.due(_delta(5.0), version=4, now_s=106.0)
    (last,) = history.due(None, version=4, now_s=106.0, flush=True)
    assert last.kappa_tokens_per_s == 5.0


def test_a_removed_key_is_forgotten() -> None:
    history = KappaHistory(5.0)
    history.due(_delta(3.0), version=2, now_s=100.0)
    history.due(_delta(4.0), version=3, now_s=101.0)
    history.due(_delta(0.0, removed=frozenset({_KEY})), version=4, now_s=102.0)
    assert not history.held
    assert len(history.due(_delta(3.0), version=5, now_s=103.0)) == 1


def test_a_restored_state_is_no_move() -> None:
    history = KappaHistory(5.0)
    snapshot = prior_snapshot()
    history.seed(snapshot, 100.0)
    same = SnapshotDelta(base_version=1, version=2, kappas=snapshot.kappas)
    assert history.due(same, version=2, now_s=200.0) == []


def test_a_clock_that_goes_back_does_not_stop_the_history() -> None:
    history = KappaHistory(5.0)
    history.due(_delta(3.0), version=2, now_s=1000.0)
    assert len(history.due(_delta(4.0), version=3, now_s=10.0)) == 1
