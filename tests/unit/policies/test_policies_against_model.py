"""Every policy against a sorted-list model, step by step, under whatever may happen to it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import POLICY_NAMES, Policy, WaitingEntry, create_policy
from sched_client.policies.guarded import GuardedPolicy
from tests.unit.policies.sorted_list_model import SortedListModel

# Dyadic numbers of few bits: their sums and products are exact in floats, so that the model
# and the policy must agree at equality, too. Few values, so that ties happen.
_WORKS = st.sampled_from([0.125, 0.5, 1.0, 1.0, 1.5, 3.0, 8.0, 40.0])
_STEPS = st.sampled_from([0.0, 0.125, 0.5, 1.0, 7.0, -3.0, 64.0, -50.0])
# Known and new names, with and without limits (a bubble opens beyond them), means and shares.
_PARTITIONS = st.sampled_from(
    [
        Partition(),
        Partition(boundaries_s=(2.0,), queue_ids=("q0", "q1"), means_s=(1.0, 8.0)),
        Partition(boundaries_s=(0.75, 4.0), queue_ids=("q5", "q0", "q6")),
        Partition(
            boundaries_s=(2.0, 16.0),
            queue_ids=("q0", "q2", "q3"),
            lowers_s=(0.5, 2.5, 20.0),
            uppers_s=(1.0, 4.0, 25.0),
            means_s=(0.5, 4.0, 32.0),
        ),
        Partition(queue_ids=("n1",), means_s=(4.0,)),
    ]
)
_PARAMETERS = st.builds(
    PolicyParameters,
    order_by=st.sampled_from(["service", "tokens"]),
    phi=st.sampled_from([0.0, 0.25, 0.5, 0.875]),
    burst_work=st.sampled_from([0.0, 1.0, 6.0, 50.0, float("inf")]),
    guard_s=st.sampled_from([None, None, None, 4.0, 60.0]),
    reorder_above=st.sampled_from([0, 0, 2, 5, 64]),
    reorder_until=st.sampled_from([0, 1, 2, 64]),
    within=st.sampled_from(["fcfs", "score"]),
    between=st.sampled_from(["score", "score", "ratio", "shortest", "halves"]),
    w_urgency=st.sampled_from([0.0, 1.0, 1.0, 4.0]),
    w_fairness=st.sampled_from([0.0, 0.0, 8.0]),
    aging_rate=st.sampled_from([0.0, 0.0, 0.125, 2.0]),
    aging_power=st.sampled_from([0.0, 1.0]),
    short_share=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    short_share_most=st.sampled_from([0.0, 0.0, 0.5, 0.75]),
    tier_weight=st.sampled_from([float("inf"), float("inf"), 1.0, 4.0]),
    partition=_PARTITIONS,
)
_PICK = st.integers(0, 10**6)


class PolicyMachine(RuleBasedStateMachine):
    name = ""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.number = 0
        self.popped: list[WaitingEntry] = []
        self.policy: Policy
        self.model: SortedListModel

    @initialize(parameters=_PARAMETERS)
    def create(self, parameters: PolicyParameters) -> None:
        self.policy = create_policy(self.name, parameters)
        self.model = SortedListModel(self.name, parameters)

    def _add(self, service_s: float, tokens: float, priority: int) -> None:
        self.number += 1
        entry = WaitingEntry(f"r{self.number}", self.now_s, service_s, tokens, priority=priority)
        self.policy.load.arrived(len(self.policy), self.now_s)
        self.model.arrived(len(self.model.stays), self.now_s)
        self.policy.add(entry)
        self.model.add(entry)

    @rule(service_s=_WORKS, tokens=_WORKS, priority=st.sampled_from([0, 0, 0, -1, 1, 7]))
    def add(self, service_s: float, tokens: float, priority: int) -> None:
        self._add(service_s, tokens, priority)

    @rule(works=st.lists(_WORKS, min_size=20, max_size=70), step=st.sampled_from([0.0, 0.125]))
    def add_many(self, works: list[float], step: float) -> None:
        for work in works:
            self.now_s += step
            self._add(work, 3.0, 0)

    @rule(works=st.lists(_WORKS, min_size=10, max_size=50), step=st.sampled_from([0.125, 0.5]))
    def serve_under_load(self, works: list[float], step: float) -> None:
        # Long histories: only they give an old request more slack than a young one.
        for work in works:
            self.now_s += step
            self._add(work, 3.0, 0)
            expected = self.model.pop(self.now_s)
            assert self.policy.pop(self.now_s) == expected
            self.popped.append(expected)

    @rule(powers=st.lists(st.integers(-9, 9), min_size=1, max_size=16))
    def add_strangers(self, powers: list[int]) -> None:
        # As many as open more bubbles than there may be.
        for power in powers:
            self._add(4.0**power, 2.0, 0)

    @rule(count=st.sampled_from([2, 11]), step=st.sampled_from([0.0, 1.0]))
    def let_partitions_come_and_go(self, count: int, step: float) -> None:
        # Faster than the queues of the former ones drain.
        parameters = self.model.parameters
        for number in range(count):
            partition = Partition(queue_ids=(f"n{number}",), means_s=(2.0,))
            parameters = replace(parameters, partition=partition)
            self.now_s += step
            self._add(1.5, 8.0, 0)
            self._change(parameters, lambda entry: entry)

    @rule(step=_STEPS)
    def let_time_pass(self, step: float) -> None:
        self.now_s += step

    @rule()
    def peek(self) -> None:
        if self.model.stays:
            assert self.policy.peek(self.now_s) == self.model.peek(self.now_s)
        else:
            with pytest.raises(IndexError):
                self.policy.peek(self.now_s)

    @rule(count=st.sampled_from([1, 1, 2, 40]), step=st.sampled_from([0.0, 0.5]))
    def pop(self, count: int, step: float) -> None:
        for _ in range(min(count, len(self.model.stays))):
            expected = self.model.pop(self.now_s)
            assert self.policy.pop(self.now_s) == expected
            self.popped.append(expected)
            self.now_s += step

    @precondition(lambda self: not self.model.stays)
    @rule()
    def pop_empty(self) -> None:
        with pytest.raises(IndexError):
            self.policy.pop(self.now_s)

    @precondition(lambda self: self.popped)
    @rule(picks=st.lists(_PICK, min_size=1, max_size=12))
    def give_back(self, picks: list[int]) -> None:
        for pick in picks:
            if self.popped:
                entry = self.popped.pop(pick % len(self.popped))
                self.policy.give_back(entry)
                self.model.give_back(entry)

    @precondition(lambda self: self.model.stays)
    @rule(pick=_PICK)
    def remove(self, pick: int) -> None:
        ids = self.model.ids()
        self.policy.remove(ids[pick % len(ids)])
        self.model.remove(ids[pick % len(ids)])

    @precondition(lambda self: self.popped)
    @rule(pick=_PICK)
    def remove_popped(self, pick: int) -> None:
        self.policy.remove(self.popped[pick % len(self.popped)].request_id)

    @precondition(lambda self: self.model.stays)
    @rule(pick=_PICK)
    def add_again(self, pick: int) -> None:
        again = self.model.stays[pick % len(self.model.stays)].entry
        for method in (self.policy.add, self.policy.give_back):
            with pytest.raises(ValueError, match=again.request_id):
                method(again)

    @rule(parameters=_PARAMETERS, factor=st.sampled_from([1.0, 0.5, 4.0]))
    def update(self, parameters: PolicyParameters, factor: float) -> None:
        def re_estimate(entry: WaitingEntry) -> WaitingEntry:
            if factor == 1.0:
                return entry
            service_s = min(max(entry.service_s * factor, 0.125), 64.0)
            return entry._replace(service_s=service_s)

        self._change(parameters, re_estimate)

    def _change(
        self, parameters: PolicyParameters, re_estimate: Callable[[WaitingEntry], WaitingEntry]
    ) -> None:
        shown = self.model.choice.entry if self.model.choice else None
        self.policy.update(parameters, re_estimate)
        self.model.update(parameters, re_estimate)
        if shown is not None:
            assert self.policy.pop(self.now_s) == shown
            self.model.pop(self.now_s)
            self.popped.append(shown)

    @precondition(lambda self: self.model.stays)
    @rule(pick=_PICK, service_s=_WORKS, tokens=_WORKS)
    def revise(self, pick: int, service_s: float, tokens: float) -> None:
        before = self.model.stays[pick % len(self.model.stays)].entry
        entry = before._replace(service_s=service_s, tokens=tokens)
        shown = self.model.choice.entry if self.model.choice else None
        self.policy.revise(entry)
        self.model.revise(entry)
        if shown is not None:
            assert self.policy.pop(self.now_s) == shown
            self.model.pop(self.now_s)
            self.popped.append(shown)

    @precondition(lambda self: self.popped)
    @rule(pick=_PICK)
    def revise_popped(self, pick: int) -> None:
        self.policy.revise(self.popped[pick % len(self.popped)])

    @invariant()
    def same_waiting(self) -> None:
        if not hasattr(self, "policy"):
            return
        assert len(self.policy) == len(self.model.stays)
        assert [entry.request_id for entry in self.policy] == self.model.ids()
        if isinstance(self.policy, GuardedPolicy):
            burst_work = self.model.parameters.burst_work
            ledger = self.policy._ledger
            for item, stay in zip(ledger, self.model.stays, strict=True):
                assert ledger.slack(item, burst_work) == self.model.slack(stay)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_policy_agrees_with_the_sorted_list_model(name: str) -> None:
    machine = type(f"{name}Machine", (PolicyMachine,), {"name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
