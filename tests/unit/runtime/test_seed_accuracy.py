"""A seed is worth what the sidecar it came from knew, and binds the new one to nothing."""

import functools
import io
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.evaluation.metrics import Crossing
from estimator.evaluation.scenarios import Trace, read_trace, resampled
from estimator.runtime.seed import read_seed, write_seed
from estimator.runtime.state_export import export_state
from sched_client.model import Features, Snapshot, evaluate

TRACES = Path(__file__).resolve().parents[3] / "benchmarks/traces"
SPEECH = (
    "aishell1-test", "commonvoice-id", "librispeech-dev-clean", "librispeech-test-clean",
    "quechua-iwslt2023", "tedxjp10k-ja-chars", "ud-french-parisstories", "ud-naija-spoken",
)  # fmt: skip
N_LEARNED, N_NEXT, N_DRAWS = 500, 20, 5
# Six times the history would make a learner that does not forget six times as slow.
MOST_RATIO = 1.5


@functools.cache
def trace(name: str) -> Trace:
    return read_trace(TRACES / f"{name}.csv.gz")


def draws(name: str) -> Iterator[tuple[Completion, ...]]:
    """Yield the trace's own order, and resamples of it."""
    yield trace(name).completions[: N_LEARNED + N_NEXT]
    for seed in range(N_DRAWS):
        yield resampled(trace(name), seed, N_LEARNED + N_NEXT).completions


def taught(completions: Sequence[Completion]) -> Pipeline:
    pipeline = Pipeline()
    for completion in completions:
        pipeline.learn_one(completion)
    return pipeline


def seeded_from(warm: Pipeline, folder: Path) -> Pipeline:
    state = export_state(warm)
    out = io.StringIO()
    write_seed(
        out, state.text.decode(), created_s=0.0, kappad_version="1", model="",
        learned_count=state.learned_count, key_count=state.key_count,
    )  # fmt: skip
    path = folder / "seed.json"
    path.write_text(out.getvalue(), encoding="utf-8")
    return Pipeline(state=read_seed(path).state)


def expected_tokens(pipeline: Pipeline, completion: Completion) -> float:
    snapshot = Snapshot(
        version=1, instance_id="", created_s=0.0, kappas=pipeline.kappas(),
        services=pipeline.services(),
    )  # fmt: skip
    features = Features(
        model=completion.model, task=completion.task, language=completion.language,
        audio_s=completion.audio_s,
    )  # fmt: skip
    return evaluate(snapshot, features).tokens


def error_over(pipeline: Pipeline, completions: Sequence[Completion]) -> float:
    """Sum absolute errors of tokens, each predicted before it is learned."""
    total = 0.0
    for completion in completions:
        total += abs(expected_tokens(pipeline, completion) - completion.output_tokens)
        pipeline.learn_one(completion)
    return total


@pytest.mark.parametrize("name", SPEECH)
def test_a_new_sidecar_is_as_good_as_the_warm_one_from_its_first_request(
    name: str, tmp_path: Path
) -> None:
    warm_error = seeded_error = cold_error = 0.0
    for completions in draws(name):
        warm = taught(completions[:N_LEARNED])
        seeded = seeded_from(warm, tmp_path)
        following = completions[N_LEARNED:]
        warm_error += error_over(warm, following)
        seeded_error += error_over(seeded, following)
        cold_error += error_over(Pipeline(), following)
    assert seeded_error <= 1.05 * warm_error
    # The check above can fail: without a seed a new sidecar does not pass it, but where κ is soon
    # found from the prior.
    soon = ("aishell1-test", "librispeech-test-clean")
    assert cold_error > (1.0 if name in soon else 1.05) * warm_error


def test_a_seed_that_is_older_by_as_much_as_it_learned_is_nearly_as_good(tmp_path: Path) -> None:
    warm_error = seeded_error = cold_error = 0.0
    for name in SPEECH:
        if len(trace(name)) < 2 * N_LEARNED + N_NEXT:
            continue
        for seed in range(3):
            completions = resampled(trace(name), seed, 2 * N_LEARNED + N_NEXT).completions
            warm = taught(completions[:N_LEARNED])
            seeded = seeded_from(warm, tmp_path)
            for completion in completions[N_LEARNED : 2 * N_LEARNED]:
                warm.learn_one(completion)
            following = completions[2 * N_LEARNED :]
            warm_error += error_over(warm, following)
            seeded_error += error_over(seeded, following)
            cold_error += error_over(Pipeline(), following)
    assert seeded_error <= 1.05 * warm_error
    assert cold_error > 1.05 * warm_error


def hidden(name: str, seed: int) -> list[Completion]:
    """Give a shuffled trace under the key that all others have: its language is not known."""
    return [
        Completion(
            completion_id=one.completion_id, audio_s=one.audio_s, output_tokens=one.output_tokens
        )
        for one in resampled(trace(name), seed).completions
    ]


def to_cross(pipeline: Pipeline, completions: Sequence[Completion]) -> int:
    """Count completions until κ is within 10 % of what it is in hindsight."""
    tokens = sum(one.output_tokens for one in completions)
    seconds = sum(one.audio_s or 0.0 for one in completions)
    crossing = Crossing(tokens / seconds)
    typical = completions[0]
    size = seconds / len(completions)
    probe = Completion(completion_id="p", audio_s=size, model=typical.model)
    crossing.update(expected_tokens(pipeline, probe) / size)
    for completion in completions:
        pipeline.learn_one(completion)
        crossing.update(expected_tokens(pipeline, probe) / size)
        if crossing.to_cross is not None:
            return crossing.to_cross
    return len(completions)


@pytest.mark.parametrize(
    ("taught_by", "serves"),
    [
        ("librispeech-test-clean", "ud-french-parisstories"),
        ("ud-french-parisstories", "librispeech-test-clean"),
    ],
)
def test_a_seed_from_another_pod_is_unlearned_as_a_drift_is(
    taught_by: str, serves: str, tmp_path: Path
) -> None:
    # A pod that taught for longer must not weigh more: nothing in a seed grows with time.
    warm, long_warm = taught(hidden(taught_by, 0)[:N_LEARNED]), taught(hidden(taught_by, 0) * 3)
    wrong, long_wrong, drift = [], [], []
    for seed in range(N_DRAWS):
        following = hidden(serves, seed)[:200]
        wrong.append(to_cross(seeded_from(warm, tmp_path), following))
        long_wrong.append(to_cross(seeded_from(long_warm, tmp_path), following))
        drift.append(to_cross(Pipeline(state=warm.state()), following))
    assert wrong == drift
    # Medians of 3 to 30: three more say nothing.
    most = max(MOST_RATIO * statistics.median(drift), statistics.median(drift) + 3)
    assert statistics.median(long_wrong) <= most


def test_learning_from_a_seed_is_learning_on(tmp_path: Path) -> None:
    completions = trace("ud-naija-spoken").completions
    warm = taught(completions[:N_LEARNED])
    seeded = seeded_from(warm, tmp_path)
    for completion in completions[N_LEARNED:1500]:
        assert seeded.learn_one(completion) == warm.learn_one(completion)
    assert json.dumps(seeded.state()) == json.dumps(warm.state())
