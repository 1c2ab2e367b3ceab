"""The order in which real vLLM admits real clips is the policy's own, by the true features."""

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from estimator.core.observation import Completion
from estimator.demo.load import Arrival
from estimator.demo.schedule import Clip, arrival_of
from sched_client.model import (
    GLOBAL_KEY,
    Estimate,
    Features,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Settings,
    Snapshot,
    evaluate,
)
from tests.support.sorted_list import AGING, SHORT_SHARE, mismatches
from tests.support.vllm_server import wait_for
from tests.vllm.conftest import Engine, Stock

N_REQUESTS = 32
# Well above what the engine serves, so that many wait at once.
RATE_RPS = 4.0
# Spanish is given three times English's tokens, so that a duration alone would order wrongly.
KAPPAS = {"en": 3.0, "es": 10.0}


# The lengths of the clips fall into three classes of work with these κ.
QUEUES = Partition(
    boundaries_s=(0.4, 0.9), queue_ids=("q5", "q2", "q8"), means_s=(0.25, 0.65, 1.5)
)
# Orders with settings of their own; all others are policies as they are.
SETTINGS: dict[str, dict[str, Any]] = {
    "ewsjf": {"policy": "ewsjf", "between": "score", "within": "fcfs"},
    "halves": {
        "policy": "ewsjf",
        "between": "halves",
        "short_share": SHORT_SHARE,
        "short_share_most": SHORT_SHARE,
    },
}
ORDERS = ("fcfs", "sjf", "hrrn", "halves", "ewsjf", "ewsjf-paper")


def fixed_snapshot(order: str) -> Snapshot:
    """Build a snapshot with known κ, and a burst that no run of this size reaches."""
    kappas = {
        Key("whisper-base", "transcribe", language): KappaEntry(
            kappa_tokens_per_s=kappa, intercept_tokens=3.0, sample_count=100, source="learned"
        )
        for language, kappa in KAPPAS.items()
    }
    service = ServiceTime(overhead_s=0.05, seconds_per_token=0.02, sample_count=100)
    rate, power = AGING
    return Snapshot(
        version=7,
        instance_id=str(uuid.uuid4()),
        created_s=1.0,
        kappas={GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=3.0), **kappas},
        services={"": service, "whisper-base": service},
        partitions={"whisper-base": QUEUES},
        settings=Settings(
            mode="on",
            burst_requests=1e6,
            reorder_above=0,
            reorder_until=0,
            aging_rate=rate,
            aging_power=power,
            **SETTINGS.get(order, {"policy": order}),
        ),
    )


def true_estimate(snapshot: Snapshot, arrival: Arrival) -> Estimate:
    """Evaluate the length in the manifest and the language in the form, not what vLLM shows."""
    features = Features(
        model="whisper-base",
        task="transcribe",
        language=arrival.language,
        timestamps=False,
        audio_s=arrival.audio_s,
    )
    return evaluate(snapshot, features)


def mixed_arrivals(clips: Sequence[Clip], order: str) -> list[Arrival]:
    # Real recordings end in noise, so that their length in the mel is the file's. The synthetic
    # ones end in 0.36 s of silence, which changes no comparison of two works here, but would
    # change one of two scores that grow with the wait.
    scored = order in {"hrrn", "ewsjf", "ewsjf-paper"}
    spanish = {"synthetic-es-0.ogg", "synthetic-es-5.ogg"} if not scored else set()
    usable = [c for c in clips if c.language == "en" or c.path.name in spanish]
    rng = random.Random(f"order {order}")
    chosen = [usable[i % len(usable)] for i in range(N_REQUESTS)]
    rng.shuffle(chosen)
    due_s, arrivals = 0.0, []
    for i, clip in enumerate(chosen):
        arrivals.append(arrival_of(clip, due_s=due_s, request_id=f"order-{order}-{i}"))
        due_s += rng.expovariate(RATE_RPS)
    return arrivals


def assert_lengths_are_true(completions: list[Completion], arrivals: list[Arrival]) -> None:
    """Compare, language by language, what was read of the mel with the manifest."""
    for language, trailing_s in (("en", 0.0), ("es", 0.36)):
        read = sorted(c.audio_s or 0.0 for c in completions if c.language == language)
        true = sorted(a.audio_s - trailing_s for a in arrivals if a.language == language)
        assert read == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("order", ORDERS)
def test_admission_order_is_that_of_a_sorted_list(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...], order: str
) -> None:
    snapshot = fixed_snapshot(order)
    arrivals = mixed_arrivals(clips, order)
    estimates = {a.request_id: true_estimate(snapshot, a) for a in arrivals}
    assert {e.queue_id for e in estimates.values()} == set(QUEUES.queue_ids)
    with engine.slot.fake(snapshot) as fake:
        fake.wait_for_engine()
        outcomes = engine.server.send(arrivals)
        wait_for(lambda: len(fake.completions) == N_REQUESTS, 15.0, "every completion reported")
    events = engine.server.events()
    assert_lengths_are_true(fake.completions, arrivals)
    ours = [e for e in events if e["event"] == "admit" and f"order-{order}-" in str(e["ids"])]
    assert {(e["mode"], e["policy"], e["version"]) for e in ours} == {
        ("on", snapshot.settings.policy, 7)
    }
    assert max(e["waiting"] for e in ours) >= 8, "too little waited to prove an order"
    assert mismatches(events, estimates, order, QUEUES) == []
    # The record would tell a wrong order: another policy's reference must not fit it.
    for other in {"fcfs", "sjf", "hrrn"} - {order}:
        assert mismatches(events, estimates, other, QUEUES), f"{other} would give the same order"
    assert {o.arrival.clip.name: o.text for o in outcomes}.items() <= stock.texts.items()
    # What was reported is the partition's name for the work; but for the first one: an engine
    # that has nothing to do takes no step, and takes in a snapshot with its next one.
    told = Counter(c.queue_id for c in fake.completions)
    assert (told - Counter(e.queue_id for e in estimates.values())).total() <= 1
