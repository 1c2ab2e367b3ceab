"""Fixtures of the tests that drive vLLM's real scheduler."""

from collections.abc import Callable
from typing import Any

import pytest

from sched_client.model import Settings, prior_snapshot
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.engine import Driver, kappad_scheduler


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Driver, FakeLink]]:
    """Start a driven KappadScheduler in a mode and policy."""

    def starter(
        mode: Any = "on",
        policy: str = "sjf",
        *,
        options: Any = None,
        length: Any = None,
        **others: Any,
    ) -> tuple[Driver, FakeLink]:
        names = ("phi", "burst_requests", "reorder_above")
        # Few wait here, and their order is what is looked at.
        guard = {
            "reorder_above": 0,
            **{name: others.pop(name) for name in names if name in others},
        }
        settings = Settings(mode=mode, policy=policy, **guard)
        link = FakeLink(prior_snapshot(settings=settings))
        scheduler, link = kappad_scheduler(monkeypatch, link, options, **others)
        driver = Driver(scheduler, **({"length": length} if length else {}))
        return driver, link

    return starter
