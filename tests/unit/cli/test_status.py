"""What `kappad status` says of the order that is in force."""

import pytest

from estimator.cli import status
from estimator.client import Status
from sched_client.model import Settings


def shown(settings: Settings, capsys: pytest.CaptureFixture[str]) -> str:
    answer = Status(
        instance_id="i",
        server_version="1",
        snapshot_version=1,
        started_s=0.0,
        settings=settings,
        learned=0,
        stored=0,
        backlog=0,
        backlog_limit=1,
        rejected=0,
        keys=1,
        key_limit=1,
        open_drifts=0,
        p90_coverage=None,
        store_error="",
        clients=(),
        services=(),
        partitions=(),
    )
    status._show(answer, now_s=1.0)
    return capsys.readouterr().out


def test_how_ewsjf_orders_is_told_where_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the shorter 46% to 58% of arrivals first" in shown(Settings(policy="ewsjf"), capsys)


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn", "ewsjf-paper"])
def test_it_is_not_told_of_policies_that_do_not_read_it(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = shown(Settings(policy=policy), capsys)
    assert f"{policy} by service" in told
    assert "shorter" not in told
