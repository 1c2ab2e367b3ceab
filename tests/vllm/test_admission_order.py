"""The order in which real vLLM admits real clips is the policy's own, by the true features."""

import random
import uuid
from collections.abc import Sequence

import pytest

from estimator.core.observation import Completion
from estimator.demo.load import Arrival
from estimator.demo.schedule import Clip, arrival_of
from sched_client.model import (
    GLOBAL_KEY,
    Features,
    KappaEntry,
    Key,
    ServiceTime,
    Settings,
    Snapshot,
    evaluate,
)
from tests.support.sorted_list import mismatches
from tests.support.vllm_server import wait_for
from tests.vllm.conftest import Engine, Stock

N_REQUESTS = 32
# Well above what the engine serves, so that many wait at once.
RATE_RPS = 4.0
# Spanish is given three times English's tokens, so that a duration alone would order wrongly.
KAPPAS = {"en": 3.0, "es": 10.0}


def fixed_snapshot(policy: str) -> Snapshot:
    """Build a snapshot with known κ, and a burst that no run of this size reaches."""
    kappas = {
        Key("whisper-base", "transcribe", language): KappaEntry(
            kappa_tokens_per_s=kappa, intercept_tokens=3.0, sample_count=100, source="learned"
        )
        for language, kappa in KAPPAS.items()
    }
    service = ServiceTime(overhead_s=0.05, seconds_per_token=0.02, sample_count=100)
    return Snapshot(
        version=7,
        instance_id=str(uuid.uuid4()),
        created_s=1.0,
        kappas={GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=3.0), **kappas},
        services={"": service, "whisper-base": service},
        settings=Settings(mode="on", policy=policy, burst_requests=1e6, reorder_above=0),
    )


def true_work_s(snapshot: Snapshot, arrival: Arrival) -> float:
    """Evaluate the length in the manifest and the language in the form, not what vLLM shows."""
    features = Features(
        model="whisper-base",
        task="transcribe",
        language=arrival.language,
        timestamps=False,
        audio_s=arrival.audio_s,
    )
    return evaluate(snapshot, features).service_s


def mixed_arrivals(clips: Sequence[Clip], policy: str) -> list[Arrival]:
    # Real recordings end in noise, so that their length in the mel is the file's. The synthetic
    # ones end in 0.36 s of silence, which changes no comparison of two works here, but would
    # change one of two response ratios.
    spanish = {"synthetic-es-0.ogg", "synthetic-es-5.ogg"} if policy != "hrrn" else set()
    usable = [c for c in clips if c.language == "en" or c.path.name in spanish]
    rng = random.Random(f"order {policy}")
    chosen = [usable[i % len(usable)] for i in range(N_REQUESTS)]
    rng.shuffle(chosen)
    due_s, arrivals = 0.0, []
    for i, clip in enumerate(chosen):
        arrivals.append(arrival_of(clip, due_s=due_s, request_id=f"order-{policy}-{i}"))
        due_s += rng.expovariate(RATE_RPS)
    return arrivals


def assert_lengths_are_true(completions: list[Completion], arrivals: list[Arrival]) -> None:
    """Compare, language by language, what was read of the mel with the manifest."""
    for language, trailing_s in (("en", 0.0), ("es", 0.36)):
        read = sorted(c.audio_s or 0.0 for c in completions if c.language == language)
        true = sorted(a.audio_s - trailing_s for a in arrivals if a.language == language)
        assert read == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn"])
def test_admission_order_is_that_of_a_sorted_list(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...], policy: str
) -> None:
    snapshot = fixed_snapshot(policy)
    arrivals = mixed_arrivals(clips, policy)
    work_s = {a.request_id: true_work_s(snapshot, a) for a in arrivals}
    with engine.slot.fake(snapshot) as fake:
        fake.wait_for_engine()
        outcomes = engine.server.send(arrivals)
        wait_for(lambda: len(fake.completions) == N_REQUESTS, 15.0, "every completion reported")
    events = engine.server.events()
    assert_lengths_are_true(fake.completions, arrivals)
    ours = [e for e in events if e["event"] == "admit" and f"order-{policy}-" in str(e["ids"])]
    assert {(e["mode"], e["policy"], e["version"]) for e in ours} == {("on", policy, 7)}
    assert max(e["waiting"] for e in ours) >= 8, "too little waited to prove an order"
    assert mismatches(events, work_s, policy) == []
    # The record would tell a wrong order: another policy's reference must not fit it.
    for other in {"fcfs", "sjf", "hrrn"} - {policy}:
        assert mismatches(events, work_s, other), f"{other} would give the same order"
    assert {o.arrival.clip.name: o.text for o in outcomes}.items() <= stock.texts.items()
