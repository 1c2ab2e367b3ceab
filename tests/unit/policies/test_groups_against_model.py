"""Every policy with groups against a sorted-list model that adds up each group anew."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from sched_client.model import PolicyParameters
from sched_client.policies import POLICY_NAMES, WaitingEntry, create_policy
from tests.unit.policies.sorted_list_model import SortedListModel
from tests.unit.policies.test_policies_against_model import (
    _PARAMETERS,
    _PICK,
    _WORKS,
    PolicyMachine,
)

_GROUPS = st.lists(st.sampled_from(["", "", "a", "b", "c"]), min_size=1, max_size=6)


class GroupMachine(PolicyMachine):
    """What may happen to a policy, to members of groups as well."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = [""]

    @initialize(parameters=_PARAMETERS, groups=_GROUPS)
    def create(self, parameters: PolicyParameters, groups: list[str]) -> None:
        self.groups = groups
        self.policy = create_policy(self.name, parameters)
        self.model = SortedListModel(self.name, parameters)

    def _add(self, service_s: float, tokens: float, priority: int) -> None:
        self.number += 1
        group_id = self.groups[self.number % len(self.groups)]
        entry = WaitingEntry(
            f"r{self.number}", self.now_s, service_s, tokens, "q0", group_id, priority
        )
        self.policy.add(entry)
        self.model.add(entry)

    @rule(groups=_GROUPS)
    def let_others_come(self, groups: list[str]) -> None:
        self.groups = groups

    @rule(count=st.integers(1, 60), work=_WORKS, group=st.sampled_from(["a", "d"]))
    def send_a_file(self, count: int, work: float, group: str) -> None:
        before, self.groups = self.groups, [group]
        for _ in range(count):
            self._add(work, work, 0)
        self.groups = before

    @precondition(lambda self: self.model.stays)
    @rule(pick=_PICK, group=st.sampled_from(["", "a", "b"]))
    def move_to_a_group(self, pick: int, group: str) -> None:
        # As the first piece of a file does when the second appears.
        entry = self.model.stays[pick % len(self.model.stays)].entry._replace(group_id=group)
        shown = self.model.choice.entry if self.model.choice else None
        self.policy.revise(entry)
        self.model.revise(entry)
        if shown is not None:
            assert self.policy.pop(self.now_s) == shown
            self.model.pop(self.now_s)
            self.popped.append(shown)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_policy_with_groups_agrees_with_the_sorted_list_model(name: str) -> None:
    machine = type(f"{name}GroupMachine", (GroupMachine,), {"name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
