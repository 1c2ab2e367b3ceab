"""What is printed of one request, whatever is known of it."""

from dataclasses import replace

import pytest

from estimator.cli import explain
from estimator.cli.explain import interval_of
from estimator.client import Explanation
from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from sched_client.model import Estimate, KappaEntry, Key, ServiceTime

EN = Key("base", "transcribe", "en", timestamps=False)
ENTRY = KappaEntry(
    kappa_tokens_per_s=3.0, intercept_tokens=2.5, ratio_p50=0.98, ratio_p90=1.4, ratio_p99=2.0,
    sample_count=1234, source="learned",
)  # fmt: skip
DONE = Completion(
    completion_id="boot-7", model="base", language="en", timestamps=False, audio_s=10.0,
    duration_source="mel", prompt_tokens=4, output_tokens=36, max_tokens=444, finished_s=1e9,
    wait_s=0.25, service_s=0.75, concurrency=3.5, predicted_tokens=32.5, snapshot_version=17,
    queue_id="q1", client_id="pod-0/0/boot",
)  # fmt: skip
DRIFT = DriftEvent(
    event_id="kappa-9", kind="kappa", model="base", task="transcribe", language="en",
    timestamps=False, detected_s=1e9, before=3.1, after=4.65, completions_to_adapt=14,
    ended_s=1e9 + 60.0,
)  # fmt: skip


def explanation(completion: Completion = DONE, **fields: object) -> Explanation:
    values: dict[str, object] = {
        "lesson": "exact",
        "lesson_reason": "",
        "service_taught": True,
        "kappas": ((EN, ENTRY), (Key(), KappaEntry(kappa_tokens_per_s=3.2))),
        "estimate": Estimate(32.5, 31.85, 45.5, 65.0, 0.5, "q0", "learned", 21),
        "service": ServiceTime(reference_concurrency=2.0),
        "drift_events": (DRIFT,),
    }
    return Explanation(completion=completion, **{**values, **fields})  # type: ignore[arg-type] # fields of mixed types


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (0.0, "up to p50"),
        (0.98, "up to p50"),
        (1.0, "p50-p90"),
        (1.4, "p50-p90"),
        (1.5, "p90-p99"),
        (2.1, "above p99"),
    ],
)
def test_a_ratio_lies_between_two_quantiles(ratio: float, expected: str) -> None:
    assert interval_of(ratio, ENTRY) == expected
    assert interval_of(ratio, None) is None


def shown(one: Explanation, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    explain._show(one)
    lines = capsys.readouterr().out.splitlines()
    return {line[:10].strip(): line[10:] for line in lines}


def test_a_finished_request_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(explanation(), capsys)
    assert lines["request"] == "boot-7 · pod-0/0/boot"
    assert lines["ended"].endswith(" · stop")
    assert lines["key"] == "base/transcribe/en/no timestamps"
    assert lines["size"] == "10.00 s of audio (mel) · 4 prompt tokens · limit 444 tokens"
    assert lines["tokens"] == ("36 came, 32.5 expected by snapshot 17: × 1.11, p50-p90 of the key")
    assert lines["time"] == (
        "waited 0.250 s, served in 0.750 s beside 3.5 (expected now 0.500 s beside 2.0) · queue q1"
    )
    assert lines["taught"] == (
        "κ of base/transcribe/en/no timestamps and its 4 parents, how long it takes"
    )
    assert lines["now"] == (
        "32.5 tokens (p50 31.9, p90 45.5, p99 65.0) by κ 3.000 +2.5 of "
        "base/transcribe/en/no timestamps, 1,234 samples, snapshot 21"
    )
    assert lines["drift"].endswith(
        "kappa of base/transcribe/en/no timestamps: 3.1 to 4.65; adapted after completions: 14"
    )


def test_what_was_never_admitted_or_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    left = Completion(
        completion_id="boot-8", finish_reason="aborted", finished_s=1e9, wait_s=3.0, priority=-2
    )
    lines = shown(
        explanation(
            left, lesson="none", lesson_reason="too early", service_taught=False, kappas=(),
            drift_events=(),
        ),
        capsys,
    )  # fmt: skip
    assert lines["request"] == "boot-8"
    assert lines["size"] == "audio of unknown length"
    assert lines["tokens"] == "0 came, nobody said how many were expected"
    assert lines["time"].startswith("waited 3.000 s, never admitted (expected now")
    assert lines["time"].endswith(" · priority -2")
    assert lines["taught"] == "nothing of κ (too early), nothing of seconds"
    assert lines["now"] == "32.5 tokens (p50 31.9, p90 45.5, p99 65.0)"
    assert "drift" not in lines


def test_a_lower_bound_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    one = explanation(lesson="lower_bound", lesson_reason="it was cut")
    assert "parents as a lower bound (it was cut), how long" in shown(one, capsys)["taught"]


def test_json_has_null_for_what_is_unknown() -> None:
    left = Completion(completion_id="boot-8", finish_reason="aborted")
    document = explain._document(explanation(left, kappas=()))
    unknown = ("audio_s", "predicted_tokens", "actual_to_predicted_ratio", "interval", "service_s")
    assert [document[name] for name in unknown] == [None] * 5


def test_labels_from_outside_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = Completion(
        completion_id="a\x1b[2J-1", queue_id="q\n", client_id="c\r", audio_s=1.0,
        duration_source="\x07", language="e\x1bn", finished_s=1e9,
    )  # fmt: skip
    reason = "because\x1b"
    explain._show(explanation(evil, lesson="none", lesson_reason=reason))
    assert all(char.isprintable() or char == "\n" for char in capsys.readouterr().out)


def test_a_long_context_is_told_by_its_stay_and_by_whose_place_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = replace(DONE, prompt_tokens=4_000, kind="text")
    service = ServiceTime(reference_concurrency=2.0, slot_context_tokens=500.0)
    estimate = explanation().estimate
    work_s = service.service_s(4_000, estimate.tokens)
    one = explanation(
        completion=long, service=service, estimate=estimate._replace(service_s=work_s)
    )
    stays_s = service.residence_s(4_000, estimate.tokens)
    said = f"(expected now {stays_s:.3f} s beside 2.0, in the place of 8.0)"
    assert said in shown(one, capsys)["time"]
    now = explain._document(one)["now"]
    assert isinstance(now, dict)
    assert (now["service_s"], now["residence_s"]) == pytest.approx((work_s, stays_s))
