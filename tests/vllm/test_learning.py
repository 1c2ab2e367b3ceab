"""From a prior that is wrong by a factor of two, κ comes to what the transcripts say."""

import json
import subprocess
from pathlib import Path

from estimator.demo.load import Outcome
from estimator.demo.schedule import Clip, arrival_of
from sched_client.model import Features
from tests.vllm.conftest import Engine, Stock

# Read speech of one style in each language: κ is one number for it.
ENGLISH = {
    "LJ002-0020.wav",
    "common_voice_en_651325.mp3",
    "2412-153948-0000.flac",
    "libri-1088-134315-0000.wav",
}
REPETITIONS = {"en": 4, "es": 3}
# What the transcripts give below (4.0 and 5.2 with their intercepts), times two.
WRONG_PRIOR = 10.0
TOLERANCE = 0.15


def count_tokens(python: Path, model: Path, texts: list[str]) -> list[int]:
    """Count as the model does, its end token included; the tokenizer is in vLLM's environment."""
    code = (
        "import json, sys; from tokenizers import Tokenizer; "
        "t = Tokenizer.from_file(sys.argv[1]); "
        "print(json.dumps([len(t.encode(x, add_special_tokens=False).ids) + 1 "
        "for x in json.load(sys.stdin)]))"
    )
    answer = subprocess.run(
        [str(python), "-c", code, str(model / "tokenizer.json")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    counts: list[int] = json.loads(answer.stdout)
    return counts


def fitted_slope(outcomes: list[Outcome], tokens: list[int]) -> float:
    """Fit tokens = intercept + κ · seconds by ordinary least squares."""
    seconds = [o.arrival.audio_s for o in outcomes]
    mean_s, mean_n = sum(seconds) / len(seconds), sum(tokens) / len(tokens)
    covariance = sum((s - mean_s) * (n - mean_n) for s, n in zip(seconds, tokens, strict=True))
    return covariance / sum((s - mean_s) ** 2 for s in seconds)


def test_kappa_comes_within_15_percent_of_the_transcripts(
    engine: Engine,
    stock: Stock,
    clips: tuple[Clip, ...],
    vllm_python: Path,
    model: Path,
) -> None:
    chosen = [c for c in clips if c.path.name in ENGLISH or c.language == "es"]
    arrivals = [
        arrival_of(clip, request_id=f"learn-{round_}-{clip.path.name}")
        for round_ in range(max(REPETITIONS.values()))
        for clip in chosen
        if round_ < REPETITIONS[clip.language]
    ]
    with engine.slot.real(prior_kappa=str(WRONG_PRIOR)) as sidecar:
        sidecar.wait_for_engines()
        outcomes = engine.server.send(arrivals)
        completions = sidecar.wait_until_stored(len(arrivals))
        kappas = dict(sidecar.client.kappas("whisper-base"))
        explained = [sidecar.client.explain(arrival.request_id) for arrival in arrivals]
        predictions = sidecar.client.predict(
            [
                Features(
                    model="whisper-base",
                    task="transcribe",
                    language=o.arrival.language,
                    timestamps=False,
                    audio_s=o.arrival.audio_s,
                )
                for o in outcomes
            ]
        ).estimates
    assert all(o.text == stock.texts[o.arrival.clip.name] for o in outcomes)
    tokens = count_tokens(vllm_python, model, [o.text for o in outcomes])
    assert sorted(c.output_tokens for c in completions) == sorted(tokens)
    assert {c.finish_reason for c in completions} == {"stop"}
    assert {c.duration_source for c in completions} == {"mel"}
    # X-Request-Id alone, which the engine has put digits of its own behind, finds a request.
    assert [len(found) for found in explained] == [1] * len(arrivals)
    told = [one.completion.language for (one,) in explained]
    assert told == [arrival.language for arrival in arrivals]
    assert len({one.completion.completion_id for (one,) in explained}) == len(arrivals)
    assert {one.lesson for (one,) in explained} == {"exact"}
    for language in ("en", "es"):
        rows = [i for i, o in enumerate(outcomes) if o.arrival.language == language]
        true_slope = fitted_slope([outcomes[i] for i in rows], [tokens[i] for i in rows])
        true_sum = sum(tokens[i] for i in rows)
        (entry,) = [
            e for k, e in kappas.items() if k.language == language and k.timestamps is None
        ]
        mean_s = sum(outcomes[i].arrival.audio_s for i in rows) / len(rows)
        assert mean_s * WRONG_PRIOR >= 2.0 * true_sum / len(rows), "the prior must be 2x wrong"
        assert entry.source == "learned"
        assert abs(entry.kappa_tokens_per_s / true_slope - 1.0) <= TOLERANCE, language
        predicted_sum = sum(predictions[i].tokens for i in rows)
        assert abs(predicted_sum / true_sum - 1.0) <= TOLERANCE, language
