"""The buffer between the engine's thread and the reporter."""

from hypothesis import given
from hypothesis import strategies as st

from sched_client.transport.buffer import ReportBuffer
from tests.support.scripted_sidecar import make_report


@given(size=st.integers(1, 5), actions=st.lists(st.sampled_from(["append", "take"]), max_size=40))
def test_every_report_is_kept_taken_or_counted_as_dropped(size: int, actions: list[str]) -> None:
    buffer = ReportBuffer(size)
    appended, taken = 0, []
    for action in actions:
        if action == "append":
            appended += 1
            buffer.append(make_report(appended))
        elif (report := buffer.take()) is not None:
            taken.append(report.counter)
        assert len(buffer) <= size
        assert len(buffer) + len(taken) + buffer.dropped == appended
    assert taken == sorted(set(taken)), "oldest first, none twice"


def test_the_oldest_goes_when_it_is_full() -> None:
    buffer = ReportBuffer(2)
    for counter in (1, 2, 3):
        buffer.append(make_report(counter))
    kept = [buffer.take(), buffer.take(), buffer.take()]
    assert [report.counter for report in kept if report is not None] == [2, 3]
    assert buffer.dropped == 1
