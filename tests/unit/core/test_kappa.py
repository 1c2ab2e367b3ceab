import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from estimator.core.config import CoreConfig
from estimator.core.kappa import KappaTable
from sched_client.model import GLOBAL_KEY, Key, Snapshot
from sched_client.text_class import text_class
from sched_client.validity import invalid_reason
from tests.support.completions import completion_of, speech

EN = Key("default", "transcribe", "en", False)


def table_of(n: int = 300, *, config: CoreConfig | None = None, **fields: Any) -> KappaTable:
    """Teach a table (Any: fields of `speech`)."""
    table = KappaTable(config or CoreConfig())
    for completion in speech(n, **fields):
        table.learn(completion)
    return table


def test_the_global_key_answers_with_the_prior_before_any_data() -> None:
    entries = KappaTable(CoreConfig(prior_kappa_tokens_per_s=4.0)).entries()
    assert set(entries) == {GLOBAL_KEY}
    assert entries[GLOBAL_KEY].kappa_tokens_per_s == 4.0
    assert entries[GLOBAL_KEY].source == "prior"


def test_a_completion_teaches_its_key_and_every_parent() -> None:
    entries = table_of().entries()
    assert set(entries) == set(EN.chain())
    assert {entry.sample_count for entry in entries.values()} == {300}
    for entry in entries.values():
        tokens = entry.intercept_tokens + entry.kappa_tokens_per_s * 10.0
        assert tokens == pytest.approx(3.0 + 3.1 * 10.0, rel=0.1)


def test_a_key_answers_for_itself_from_min_samples_on() -> None:
    table = table_of(1)
    assert EN not in table.entries()
    table.learn(completion_of(1, 10.0, 34))
    assert table.entries()[EN].source == "learned"


def test_languages_are_told_apart() -> None:
    table = KappaTable(CoreConfig())
    for english, hindi in zip(
        speech(200), speech(200, kappa=11.0, language="hi", seed=1), strict=True
    ):
        table.learn(english)
        table.learn(hindi)
    entries = table.entries()
    hindi_key = EN._replace(language="hi")
    assert entries[EN].kappa_tokens_per_s == pytest.approx(3.1, rel=0.1)
    assert entries[hindi_key].kappa_tokens_per_s == pytest.approx(11.0, rel=0.1)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "detection", "finish_reason": "length"},
        {"kind": "beam_step"},
        {"kind": "session"},
        {"finish_reason": "aborted"},
        {"finish_reason": "error"},
        {"audio_s": None},
        {"task": "text"},
        {"kind": "text", "prompt_tokens": 50},
    ],
)
def test_what_must_not_teach_kappa_leaves_no_trace(fields: dict[str, Any]) -> None:
    table = KappaTable(CoreConfig())
    for i in range(20):
        assert table.learn(completion_of(i, **{"audio_s": 5.0, "tokens": 99, **fields})) is None
    assert len(table) == 1
    assert table.entries()[GLOBAL_KEY].sample_count == 0


def test_a_capped_request_below_the_estimate_is_silence() -> None:
    table = table_of()
    before = table.entries()
    for i in range(50):
        table.learn(completion_of(i, 20.0, 10, finish_reason="length", max_tokens=10))
    assert table.entries() == before


def test_capped_requests_above_the_estimate_raise_it() -> None:
    table = table_of()
    for i in range(50):
        table.learn(completion_of(i, 10.0, 60, finish_reason="length", max_tokens=60))
    entry = table.entries()[EN]
    assert entry.intercept_tokens + 10.0 * entry.kappa_tokens_per_s > 50.0


def test_text_is_counted_in_prompt_tokens_and_stops_at_its_task() -> None:
    table = KappaTable(CoreConfig())
    rng = random.Random(0)
    for i in range(300):
        prompt = rng.randrange(100, 2_000)
        table.learn(
            completion_of(
                i, None, round(20 + 0.1 * prompt), kind="text", task="text", language="",
                timestamps=None, prompt_tokens=prompt,
            )
        )  # fmt: skip
    entries = table.entries()
    sizes = {Key("default", "text", text_class("", prompt)) for prompt in (500, 1_000, 1_999)}
    assert sizes | {GLOBAL_KEY, Key("default", "text")} <= entries.keys()
    assert {key.task for key in entries} == {"", "text"}
    assert entries[Key("default", "text")].kappa_tokens_per_s == pytest.approx(0.1, rel=0.05)
    assert entries[GLOBAL_KEY].sample_count == 0


def test_one_completion_changes_the_keys_of_its_chain_only() -> None:
    table = KappaTable(CoreConfig())
    for completion in (*speech(50), *speech(50, language="fr", kappa=6.0)):
        table.learn(completion)
    before = table.entries()
    table.learn(completion_of(0, 10.0, 40))
    after = table.entries()
    assert {key for key in after if after[key] != before[key]} <= set(EN.chain())
    assert after[EN] != before[EN]


def test_changes_are_those_that_moved_since_they_were_taken() -> None:
    table = table_of()
    changed, removed = table.take_changes()
    assert set(changed) == set(EN.chain())
    assert removed == frozenset()
    assert table.take_changes() == ({}, frozenset())
    entry = changed[EN]
    exact = round(entry.intercept_tokens + 10.0 * entry.kappa_tokens_per_s)
    table.learn(completion_of(1, 10.0, exact))
    assert table.take_changes() == ({}, frozenset())
    for completion in speech(30, kappa=6.0):
        table.learn(completion)
    assert EN in table.take_changes()[0]


def test_an_evicted_key_is_reported_once_and_falls_back() -> None:
    table = KappaTable(CoreConfig(max_keys=10))
    for language in ("aa", "bb", "cc"):
        for completion in speech(10, language=language):
            table.learn(completion)
    assert len(table) == 9
    table.take_changes()
    for completion in speech(10, language="dd"):
        table.learn(completion)
    assert len(table) == 10
    changed, removed = table.take_changes()
    assert removed == {EN._replace(language="aa", timestamps=False)}
    assert EN._replace(language="dd") in changed
    assert table.take_changes()[1] == frozenset()
    assert table.get(EN._replace(language="aa")).key == Key("default", "transcribe", "aa")


def test_a_hundred_thousand_invented_languages_leave_a_learned_key_alone() -> None:
    config = CoreConfig(max_keys=500)
    table = table_of(config=config)
    before = table.entries()[EN]
    for i in range(100_000):
        table.learn(completion_of(i, 5.0, 18, language=f"x{i}"))
    assert len(table) == 500
    assert table.entries()[EN] == before
    changed, removed = table.take_changes()
    assert len(changed) == 5
    assert removed == frozenset()


class Bounded(RuleBasedStateMachine):
    """Keys come, are used and go; the table stays whole whatever the order."""

    def __init__(self) -> None:
        super().__init__()
        self.table = KappaTable(CoreConfig(max_keys=12, min_samples=3))
        self.known: set[Key] = set()
        self.n = 0

    @rule(
        model=st.sampled_from(["m1", "m2", "m3"]),
        task=st.sampled_from(["transcribe", "translate", "text", ""]),
        language=st.sampled_from(["", "en", "fr", "hi"]),
        timestamps=st.sampled_from([None, True, False]),
        finish=st.sampled_from(["stop", "stop", "stop", "length"]),
        times=st.integers(1, 5),
    )
    def learn(
        self,
        model: str,
        task: str,
        language: str,
        timestamps: bool | None,
        finish: str,
        times: int,
    ) -> None:
        for _ in range(times):
            self.n += 1
            self.table.learn(
                completion_of(
                    self.n, 5.0, 18, model=model, task=task, language=language,
                    timestamps=timestamps, kind="text" if task == "text" else "transcription",
                    prompt_tokens=9, finish_reason=finish,
                )
            )  # fmt: skip

    @rule()
    def take(self) -> None:
        changed, removed = self.table.take_changes()
        assert not removed & changed.keys()
        assert removed <= self.known
        self.known = (self.known - removed) | changed.keys()
        # What a client holds by changes alone is what it would get as a whole.
        assert self.known == set(self.table.entries())

    @rule()
    def restart(self) -> None:
        state = list(self.table.states())
        self.table = KappaTable(self.table.config)
        self.table.restore(state)
        assert list(self.table.states()) == state
        self.known = set()

    @invariant()
    def whole(self) -> None:
        nodes = {node.key: node for node in self.table}
        assert len(nodes) == len(self.table) <= 12
        for node in nodes.values():
            if node.parent is not None:
                assert nodes[node.parent.key] is node.parent
        snapshot = Snapshot(version=1, instance_id="i", created_s=0.0, kappas=self.table.entries())
        assert invalid_reason(snapshot) is None


TestBounded = Bounded.TestCase
TestBounded.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_a_smaller_bound_at_restart_keeps_the_most_recently_used() -> None:
    table = KappaTable(CoreConfig())
    for language in ("aa", "bb", "cc", "dd", "ee"):
        for completion in speech(10, language=language):
            table.learn(completion)
    smaller = KappaTable(CoreConfig(max_keys=10))
    smaller.restore(list(table.states()))
    assert len(smaller) == 10
    languages = {key.language for key in smaller.entries()}
    assert "ee" in languages
    assert "aa" not in languages
