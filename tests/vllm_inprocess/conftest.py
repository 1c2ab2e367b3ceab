"""Fixtures of the tests that drive vLLM's real scheduler."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from sched_client.model import Partition, Settings, prior_snapshot
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
        partition: Partition | None = None,
        **others: Any,
    ) -> tuple[Driver, FakeLink]:
        names = {field.name for field in fields(Settings)}
        # Few wait here, and their order is what is looked at.
        chosen: dict[str, Any] = {"reorder_above": 0, "reorder_until": 0}
        chosen.update({name: others.pop(name) for name in names & others.keys()})
        snapshot = prior_snapshot(settings=Settings(mode=mode, policy=policy, **chosen))
        if partition is not None:
            snapshot = replace(snapshot, partitions={"whisper-test": partition})
        link = FakeLink(snapshot)
        scheduler, link = kappad_scheduler(monkeypatch, link, options, **others)
        driver = Driver(scheduler, **({"length": length} if length else {}))
        return driver, link

    return starter
