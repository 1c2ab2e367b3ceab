"""Which mode is in force, and why."""

import pytest

from sched_client.model import Settings, Snapshot, prior_snapshot
from sched_client.options import ClientOptions
from sched_client.policies import POLICY_NAMES
from sched_client.vllm.mode import Decision, decide, failed


def _snapshot(version: int = 3, **settings: object) -> Snapshot:
    base = prior_snapshot(settings=Settings(**settings))  # type: ignore[arg-type]  # test values
    return Snapshot(
        version=version,
        instance_id="i",
        created_s=0.0,
        kappas=base.kappas,
        settings=base.settings,
    )


def _decide(options: ClientOptions, snapshot: Snapshot, **signals: object) -> Decision:
    return decide(options, snapshot, policies=POLICY_NAMES, **signals)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_auto_follows_the_snapshot(mode: str) -> None:
    decision = _decide(ClientOptions(), _snapshot(mode=mode, policy="hrrn"))
    assert decision.mode == mode
    assert decision.reason == ""
    assert decision.policy == ("fcfs" if mode == "off" else "hrrn")
    assert decision.reports is (mode != "off")


@pytest.mark.parametrize("asked", ["off", "shadow", "on"])
@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_the_engines_own_mode_stands_whatever_the_snapshot_says(asked: str, mode: str) -> None:
    decision = _decide(ClientOptions(mode=asked), _snapshot(mode=mode))
    assert decision.mode == asked
    assert decision.reason == ("" if asked == mode else "options")


def test_the_engines_own_policy_stands() -> None:
    decision = _decide(ClientOptions(policy="hrrn"), _snapshot(mode="on", policy="sjf"))
    assert (decision.mode, decision.policy, decision.reason) == ("on", "hrrn", "options")


def test_the_kill_switch_beats_the_engines_own_mode() -> None:
    decision = _decide(ClientOptions(mode="on"), _snapshot(mode="on"), kill_switch=True)
    assert decision == Decision("off", "fcfs", "kill switch", reports=False)


def test_a_long_silence_means_off_and_completions_are_still_kept() -> None:
    options = ClientOptions(mode="on", stale_fcfs_after_s=10.0)
    snapshot = _snapshot(mode="on")
    assert _decide(options, snapshot, stale_for_s=10.0).mode == "on"
    assert _decide(options, snapshot, stale_for_s=10.1) == Decision("off", "fcfs", "stale")


def test_the_configured_prior_orders_from_the_first_request_and_never_goes_stale() -> None:
    prior = prior_snapshot()
    decision = _decide(ClientOptions(mode="on"), prior, stale_for_s=1e6)
    assert (decision.mode, decision.policy) == ("on", prior.settings.policy)
    assert _decide(ClientOptions(), prior, stale_for_s=1e6).mode == "shadow"


def test_a_failure_of_ours_means_off_without_reports() -> None:
    assert failed("KeyError: x") == Decision("off", "fcfs", "failure: KeyError: x", reports=False)


def test_an_unknown_policy_means_fcfs_with_a_reason() -> None:
    decision = _decide(ClientOptions(), _snapshot(mode="on", policy="from-the-future"))
    assert (decision.mode, decision.policy) == ("on", "fcfs")
    assert "from-the-future" in decision.reason


def test_off_by_the_operator_is_no_override() -> None:
    assert _decide(ClientOptions(), _snapshot(mode="off")).reason == ""
    assert _decide(ClientOptions(mode="off"), _snapshot(mode="on")).reason == "options"
