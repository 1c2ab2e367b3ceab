"""The bounded queue takes a report whole or not at all, and counts rows until they are settled."""

import pytest

from estimator.core.observation import Completion
from estimator.runtime.backlog import Backlog
from estimator.runtime.errors import ExhaustedError, UnavailableError


def _rows(n: int) -> list[Completion]:
    return [Completion(completion_id=f"b-{i}") for i in range(n)]


async def test_a_full_backlog_refuses_with_numbers_and_a_delay() -> None:
    backlog = Backlog(10)
    backlog.put(_rows(8))
    with pytest.raises(ExhaustedError, match="8 of 10") as caught:
        backlog.put(_rows(3))
    assert caught.value.reason == "BACKLOG_FULL"
    assert caught.value.retry_after_s is not None
    assert caught.value.metadata["backlog_limit"] == "10"
    backlog.put(_rows(2))
    assert backlog.n_rows == 10


async def test_taking_makes_no_room_but_settling_does() -> None:
    backlog = Backlog(4)
    backlog.put(_rows(4))
    backlog.take(100)
    with pytest.raises(ExhaustedError):
        backlog.put(_rows(1))
    backlog.settle(4)
    backlog.put(_rows(4))


async def test_a_group_is_at_least_one_report_and_at_most_the_rows_asked_for() -> None:
    backlog = Backlog(100)
    for n in (5, 3, 3):
        backlog.put(_rows(n))
    assert [len(r.completions) for r in backlog.take(2)] == [5]
    assert [len(r.completions) for r in backlog.take(6)] == [3, 3]
    assert backlog.take(6) == []


async def test_failing_refuses_all_that_waits_and_makes_room() -> None:
    backlog = Backlog(10)
    done = backlog.put(_rows(10))
    backlog.fail(UnavailableError("gone"))
    with pytest.raises(UnavailableError, match="gone"):
        await done
    assert backlog.n_rows == 0


async def test_settling_twice_is_a_bug() -> None:
    backlog = Backlog(10)
    with pytest.raises(RuntimeError, match="twice"):
        backlog.settle(1)
