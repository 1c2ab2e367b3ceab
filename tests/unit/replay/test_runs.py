"""A run's settings become what they say: estimates, starts, the same requests for everyone."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from estimator.cli.replay import replay as command
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.replay.arrivals import Arrivals
from estimator.replay.estimates import DurationEstimates, TrueEstimates
from estimator.replay.job import Job
from estimator.replay.learned import LearnedEstimates
from estimator.replay.profile import EngineProfile
from estimator.replay.rows import Rows
from estimator.replay.runs import (
    WARM_REQUESTS,
    EstimateKind,
    Point,
    Setup,
    estimates_of,
    run_once,
)
from estimator.replay.workload import Workload
from sched_client.model import Key, Settings

PROFILE = EngineProfile(name="small", slots=8, step_s=0.01, admission_s=0.02)
POINT = Point(9.0, 1.5)


def rows_of(language: str, tokens_per_s: int) -> Rows:
    rows = Rows(language)
    for index in range(40):
        audio_s = 1.0 + index % 8
        rows.append(
            Completion(
                completion_id="x",
                language=language,
                audio_s=audio_s,
                output_tokens=round(tokens_per_s * audio_s),
            )
        )
    return rows


ENGLISH, FRENCH = rows_of("en", 4), rows_of("fr", 8)
SETUP = Setup(profile=PROFILE, workload=Workload(files=(ENGLISH, FRENCH), n=300))


def learned(setup: Setup) -> LearnedEstimates:
    estimates = estimates_of(setup, POINT, 0)
    assert isinstance(estimates, LearnedEstimates)
    return estimates


@pytest.mark.parametrize(
    ("kind", "of"),
    [("learned", LearnedEstimates), ("duration", DurationEstimates), ("true", TrueEstimates)],
)
def test_estimates_are_of_the_kind_asked_for(kind: EstimateKind, of: type) -> None:
    assert type(estimates_of(replace(SETUP, estimates=kind), POINT, 0)) is of


def test_a_cold_start_knows_nothing_and_a_warm_one_the_first_of_two_files() -> None:
    assert all(entry.source == "prior" for entry in learned(SETUP).snapshot.kappas.values())
    kappas = learned(replace(SETUP, warm=True)).snapshot.kappas
    languages = {key.language for key, entry in kappas.items() if entry.source == "learned"}
    assert "en" in languages
    assert "fr" not in languages
    english = next(entry for key, entry in kappas.items() if key.language == "en")
    assert english.kappa_tokens_per_s == pytest.approx(4.0, rel=0.05)


def test_a_warm_start_knows_every_part_of_a_mix() -> None:
    mixed = Workload(files=(ENGLISH, FRENCH), n=300, weights=(1.0, 1.0))
    kappas = learned(replace(SETUP, workload=mixed, warm=True)).snapshot.kappas
    assert {"en", "fr"} <= {key.language for key in kappas}


def test_a_seed_state_is_where_learning_goes_on() -> None:
    pipeline = Pipeline()
    for index in range(300):
        pipeline.learn_one(
            Completion(
                completion_id=f"x-{index}",
                language="xx",
                audio_s=1.0 + index % 9,
                output_tokens=round(7 * (1.0 + index % 9)),
                finished_s=1.0 + index,
            )
        )
    setup = replace(SETUP, state=pipeline.state())
    entry, _ = learned(setup).snapshot.resolve(Key("default", "transcribe", "xx", None))
    assert entry.kappa_tokens_per_s == pytest.approx(7.0, rel=0.05)
    assert (setup.start, SETUP.start) == ("seed", "cold")


def test_the_past_is_another_draw_at_seven_tenths_of_the_capacity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    past: list[Job] = []

    def keep(jobs: Iterable[Job], *_: object, **__: object) -> None:
        past.extend(jobs)

    monkeypatch.setattr("estimator.replay.runs.simulate", keep)
    estimates_of(replace(SETUP, warm=True), POINT, 3)
    assert len(past) == WARM_REQUESTS
    # Load 1.5 is 9 requests/s.
    assert WARM_REQUESTS / past[-1].arrival_ns * 1e9 == pytest.approx(0.7 * 6.0, rel=0.1)
    alike = Workload(files=(ENGLISH,), n=WARM_REQUESTS, resample=True)
    jobs = list(alike.jobs(Arrivals(), rate_rps=4.2, seed=3))
    assert {job.output_tokens for job in past} == {job.output_tokens for job in jobs}
    assert [job.output_tokens for job in past] != [job.output_tokens for job in jobs]


def test_the_baseline_is_the_same_whatever_the_others_order_by() -> None:
    kinds: tuple[EstimateKind, ...] = ("learned", "duration", "true")
    figures = [
        run_once(replace(SETUP, estimates=kind), "fcfs", POINT, 0).figures for kind in kinds
    ]
    assert figures[0] == figures[1] == figures[2]


def test_the_guards_burst_is_in_mean_requests_of_the_workload() -> None:
    setup = replace(SETUP, estimates="true", settings=Settings(order_by="tokens"))
    tokens = setup.workload.mean_tokens
    assert estimates_of(setup, POINT, 0).parameters.burst_work == pytest.approx(
        Settings().burst_requests * tokens
    )


def test_knowing_the_length_beats_the_duration_where_languages_differ_in_density() -> None:
    mixed = Workload(files=(rows_of("en", 2), rows_of("fr", 12)), n=600, weights=(1.0, 1.0))
    setup = replace(SETUP, workload=mixed, settings=Settings(burst_requests=1e9))
    point = Point(30.0, 1.5)
    means = {
        kind: run_once(replace(setup, estimates=kind), "sjf", point, 0).figures.e2e_s.mean
        for kind in ("duration", "learned", "true")
    }
    assert means["true"] < means["duration"]
    assert means["learned"] < means["duration"]
    assert means["learned"] == pytest.approx(means["true"], rel=0.05)


def test_the_commands_defaults_are_those_of_the_arrivals_and_the_guard() -> None:
    defaults = dict(zip(command.__annotations__, command.__defaults__ or (), strict=False))
    arrivals, settings = Arrivals(), Settings()
    assert defaults["gamma_cv"] == arrivals.cv
    assert defaults["diurnal_amplitude"] == arrivals.amplitude
    assert defaults["diurnal_period_s"] == arrivals.period_s
    assert defaults["burst_cycle_s"] == arrivals.cycle_s
    assert (defaults["phi"], defaults["burst_requests"]) == (
        settings.phi, settings.burst_requests,
    )  # fmt: skip
