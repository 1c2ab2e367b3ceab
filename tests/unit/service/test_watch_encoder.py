"""What a watcher is sent, and that many watchers cost one encoding."""

from collections.abc import Collection

import pytest

from estimator.convert import delta_from_proto, parameters_from_proto, parameters_to_proto
from estimator.runtime.publisher import Publisher
from estimator.service.watch import WatchEncoder
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import GLOBAL_KEY, KappaEntry, Key, Snapshot, prior_snapshot

_ALL: frozenset[str] = frozenset()


@pytest.fixture
def publisher() -> Publisher:
    return Publisher(prior_snapshot(), ring_limit=3)


def _encoder(publisher: Publisher) -> WatchEncoder:
    return WatchEncoder(publisher, Metrics(), now_s=lambda: 5.0)


def _publish(publisher: Publisher, key: Key, kappa: float) -> None:
    publisher.publish(created_s=0.0, kappas={key: KappaEntry(kappa_tokens_per_s=kappa)})


def _read(data: bytes) -> pb.WatchParametersResponse:
    return pb.WatchParametersResponse.FromString(data)


def test_a_new_watcher_gets_the_state_of_its_models(publisher: Publisher) -> None:
    _publish(publisher, Key("a"), 1.0)
    _publish(publisher, Key("b"), 2.0)
    data, held = _encoder(publisher).encode(frozenset({"a"}), None)
    message = _read(data)
    state = parameters_from_proto(message.snapshot, version=2, instance_id="", created_s=0.0)
    assert (message.version, held) == (2, 2)
    assert set(state.kappas) == {GLOBAL_KEY, Key("a")}


def test_a_watcher_that_comes_back_is_told_when_it_was_told(publisher: Publisher) -> None:
    now_s = [5.0]
    encoder = WatchEncoder(publisher, Metrics(), now_s=lambda: now_s[0])
    held = publisher.snapshot.version
    encoder.encode(_ALL, held)
    now_s[0] = 500.0
    message = _read(encoder.encode(_ALL, held)[0])
    assert message.WhichOneof("event") == "bookmark"
    assert message.create_time.seconds == 500


def test_a_lagging_watcher_gets_the_merged_change(publisher: Publisher) -> None:
    for kappa in (1.0, 2.0, 3.0):
        _publish(publisher, Key("a"), kappa)
    data, held = _encoder(publisher).encode(_ALL, 1)
    delta = delta_from_proto(_read(data).delta, version=held)
    assert (delta.base_version, delta.version) == (1, 3)
    assert delta.kappas[Key("a")].kappa_tokens_per_s == 3.0


@pytest.mark.parametrize("held", [0, 99])
def test_a_version_that_is_not_known_is_answered_with_the_state(
    publisher: Publisher, held: int
) -> None:
    for kappa in (1.0, 2.0, 3.0, 4.0):
        _publish(publisher, Key("a"), kappa)
    message = _read(_encoder(publisher).encode(_ALL, held)[0])
    assert message.WhichOneof("event") == "snapshot"
    assert message.version == 4


def test_a_change_of_another_model_is_a_bookmark_with_the_version(publisher: Publisher) -> None:
    _publish(publisher, Key("b"), 1.0)
    data, held = _encoder(publisher).encode(frozenset({"a"}), 0)
    assert _read(data).WhichOneof("event") == "bookmark"
    assert (_read(data).version, held) == (1, 1)
    # And from there a change of its own model builds on that version.
    _publish(publisher, Key("a"), 2.0)
    assert _read(_encoder(publisher).encode(frozenset({"a"}), held)[0]).delta.base_version == 1


def test_the_newest_version_is_answered_with_a_bookmark(publisher: Publisher) -> None:
    _publish(publisher, Key("a"), 1.0)
    assert _read(_encoder(publisher).encode(_ALL, 1)[0]).WhichOneof("event") == "bookmark"


def test_many_watchers_cost_one_encoding(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Snapshot] = []

    def spy(snapshot: Snapshot, models: Collection[str]) -> pb.Parameters:
        built.append(snapshot)
        return parameters_to_proto(snapshot, models)

    monkeypatch.setattr("estimator.service.watch.parameters_to_proto", spy)
    encoder = _encoder(publisher)
    messages = {encoder.encode(_ALL, None)[0] for _ in range(50)}
    assert (len(messages), len(built)) == (1, 1)
    _publish(publisher, Key("a"), 1.0)
    encoder.encode(_ALL, None)
    assert len(built) == 2


def test_the_cache_is_bounded(publisher: Publisher) -> None:
    encoder = _encoder(publisher)
    for number in range(500):
        encoder.encode(frozenset({f"m{number}"}), None)
    assert len(encoder._cache) <= 32
