"""Clients are remembered up to a limit; watches are counted."""

import pytest

from estimator.runtime.errors import ExhaustedError
from estimator.service.clients import ClientRegistry
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb


def _registry(clients: int = 3, watchers: int = 2) -> ClientRegistry:
    return ClientRegistry(
        client_limit=clients, watcher_limit=watchers, metrics=Metrics(), now_s=lambda: 5.0
    )


def test_the_client_not_heard_for_longest_is_forgotten() -> None:
    registry = _registry()
    for name in ("a", "b", "c", "a", "d"):
        registry.heard(pb.ClientStatus(client_id=name))
    assert [known.status.client_id for known in registry.list()] == ["d", "a", "c"]


def test_a_watch_counts_while_it_lasts_and_does_not_overwrite_a_report() -> None:
    registry = _registry()
    registry.heard(pb.ClientStatus(client_id="a", applied_version=7))
    with registry.watching("a"), registry.watching("a"):
        (known,) = registry.list()
        assert known.watching
        assert known.status.applied_version == 7
    assert not registry.list()[0].watching


def test_too_many_watches_are_refused_and_the_refused_one_is_not_counted() -> None:
    registry = _registry(watchers=1)
    with registry.watching("a"):
        with pytest.raises(ExhaustedError, match="limit is 1"), registry.watching("b"):
            pass
        with pytest.raises(ExhaustedError), registry.watching("c"):
            pass
    with registry.watching("b"):
        assert registry.list()[0].watching
