import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, linear_model, metrics

from estimator.core.learner import AffineRegressor, Anchor
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from sched_client.model import Key


def anchor(**fields: float) -> Anchor:
    values = {
        "kappa": 3.2, "intercept": 0.0, "mean_size": 7.4, "sd_size": 5.2, "relative_error": 0.35,
    }  # fmt: skip
    return Anchor(**{**values, **fields})


def pairs(n: int, *, kappa: float = 3.1, seed: int = 0) -> list[tuple[dict[str, float], float]]:
    rng = random.Random(seed)
    sizes = [rng.uniform(1.0, 29.0) for _ in range(n)]
    return [({"size": s}, (3.0 + kappa * s) * rng.lognormvariate(0.0, 0.2)) for s in sizes]


def test_the_prior_answers_before_any_data() -> None:
    assert AffineRegressor(parent=anchor()).predict_one({"size": 10.0}) == pytest.approx(32.0)


def test_the_line_becomes_the_generating_one() -> None:
    regressor = AffineRegressor(parent=anchor(), forgetting=1.0)
    for x, y in pairs(4_000):
        regressor.learn_one(x, y)
    assert regressor.kappa_ == pytest.approx(3.1, rel=0.03)
    assert regressor.intercept_ == pytest.approx(3.0, abs=0.5)


def test_sums_give_what_rivers_bayesian_regression_gives() -> None:
    ours = AffineRegressor(parent=anchor(), forgetting=0.99, shrinkage=1e-9, level_shrinkage=1e12)
    rivers = linear_model.BayesianLinearRegression(alpha=1e6, smoothing=0.99)
    for x, y in pairs(300):
        ours.absorb(x["size"], y)
        rivers.learn_one({"size": x["size"], "one": 1.0}, y)
    ours.solve()
    for size in (1.0, 10.0, 29.0):
        theirs = rivers.predict_one({"size": size, "one": 1.0})
        assert ours.predict_one({"size": size}) == pytest.approx(theirs, rel=1e-4)


def test_rivers_own_tools_run_it() -> None:
    ours = evaluate.progressive_val_score(
        pairs(500), AffineRegressor(parent=anchor()), metrics.MAE()
    )
    rivers = evaluate.progressive_val_score(
        pairs(500), linear_model.BayesianLinearRegression(smoothing=0.97), metrics.MAE()
    )
    assert ours.get() < rivers.get()


def test_few_completions_shrink_toward_the_parent_by_their_share() -> None:
    regressor = AffineRegressor(
        parent=anchor(), forgetting=1.0, shrinkage=2.0, level_shrinkage=1e12
    )
    for _ in range(2):
        for size in (2.2, 12.6):
            regressor.absorb(size, 6.4 * size)
    regressor.solve()
    # Four on twice the parent's line, spread as the parent's sizes are, against its two.
    assert regressor.kappa_ == pytest.approx(3.2 + 3.2 * 4 / 6, rel=1e-6)


def test_clips_of_one_length_keep_the_parents_slope_where_it_is_not_seen() -> None:
    parent = AffineRegressor(parent=anchor(), forgetting=1.0)
    for x, y in pairs(1_000):
        parent.learn_one(x, y)
    child = AffineRegressor(parent=parent)
    for _ in range(500):
        child.learn_one({"size": 2.0}, 9.0)
    assert child.predict_one({"size": 2.0}) == pytest.approx(9.0, rel=0.02)
    assert child.predict_one({"size": 29.0}) == pytest.approx(3.0 + 3.1 * 29.0, rel=0.1)


def test_kappa_is_never_negative() -> None:
    regressor = AffineRegressor(parent=anchor())
    for size in range(1, 200):
        regressor.learn_one({"size": float(size % 29 + 1)}, 100.0 - 3.0 * (size % 29))
    assert regressor.kappa_ == 0.0
    assert 40.0 < regressor.intercept_ < 90.0


@given(st.permutations(range(12)))
def test_order_does_not_matter_without_forgetting(order: list[int]) -> None:
    data = pairs(12)
    sums, permuted = (AffineRegressor(parent=anchor(), forgetting=1.0) for _ in range(2))
    for x, y in data:
        sums.absorb(x["size"], y)
    for i in order:
        permuted.absorb(data[i][0]["size"], data[i][1])
    sums.solve()
    permuted.solve()
    assert permuted.kappa_ == pytest.approx(sums.kappa_, rel=1e-9)
    assert permuted.intercept_ == pytest.approx(sums.intercept_, rel=1e-9, abs=1e-9)


def test_a_new_level_is_followed_and_the_shape_kept() -> None:
    regressor = AffineRegressor(parent=anchor())
    for x, y in pairs(600):
        regressor.learn_one(x, y)
    for x, y in pairs(30, seed=2):
        regressor.learn_one(
            {"size": 10.0 + x["size"] / 29.0}, 1.8 * y * 34.0 / (3.0 + 3.1 * x["size"])
        )
    assert regressor.level.n_changes_ == 1
    # Clips of 10 s say nothing of others, whose share of slope and intercept stays.
    for size in (5.0, 10.5, 29.0):
        expected = 1.8 * (3.0 + 3.1 * size)
        assert regressor.predict_one({"size": size}) == pytest.approx(expected, rel=0.1)


def test_a_change_is_followed_within_ten_completions_in_half_of_the_runs() -> None:
    within = []
    for seed in range(20):
        regressor = AffineRegressor(parent=anchor())
        for x, y in pairs(300, seed=seed):
            regressor.learn_one(x, y)
        for i, (x, y) in enumerate(pairs(60, kappa=5.6, seed=100 + seed), start=1):
            regressor.learn_one(x, y)
            if abs(regressor.predict_one({"size": 15.0}) / (3.0 + 5.6 * 15.0) - 1.0) < 0.1:
                within.append(i)
                break
    assert len(within) == 20
    assert sorted(within)[10] <= 10
    assert sorted(within)[17] <= 18


def test_an_hour_of_audio_among_utterances_hides_no_change() -> None:
    # Of one such completion the dispersion was 60 times that of utterances: 50 completions.
    within = []
    for seed in range(10):
        regressor = AffineRegressor(parent=anchor())
        for x, y in pairs(200, seed=seed):
            regressor.learn_one(x, y)
        regressor.teach(3_600.0, 1.1 * 3.1 * 3_600.0)
        for i, (x, y) in enumerate(pairs(60, kappa=5.6, seed=100 + seed), start=1):
            regressor.learn_one(x, y)
            if abs(regressor.predict_one({"size": 15.0}) / (3.0 + 5.6 * 15.0) - 1.0) < 0.1:
                within.append(i)
                break
    assert len(within) == 10
    assert sorted(within)[5] <= 12


def test_nothing_changing_it_errs_as_little_as_one_that_never_forgets() -> None:
    errors = [0.0, 0.0]
    for seed in range(4):
        follows = AffineRegressor(parent=anchor())
        never = AffineRegressor(parent=anchor(), forgetting=1.0, change_hazard=1e-12)
        for i, (x, y) in enumerate(pairs(2_000, seed=seed)):
            for which, learner in enumerate((follows, never)):
                if i >= 100:
                    errors[which] += abs(learner.predict_one(x) - y)
                learner.learn_one(x, y)
    assert errors[0] <= 1.01 * errors[1]


def test_what_is_told_to_parents_is_what_was_learned_since() -> None:
    child, parent, other = (AffineRegressor(parent=anchor(), forgetting=1.0) for _ in range(3))
    for x, y in pairs(40):
        child.learn_one(x, y)
        parent.add_sums(child.take_untold())
    for x, y in pairs(40):
        other.learn_one(x, y)
    other_parent = AffineRegressor(parent=anchor(), forgetting=1.0)
    other_parent.add_sums(other.take_untold())
    parent.solve()
    other_parent.solve()
    assert child.take_untold() == [0.0] * 6
    assert parent.kappa_ == pytest.approx(other_parent.kappa_)
    assert parent.weight_ == pytest.approx(child.weight_)


def test_a_bound_raises_the_level() -> None:
    regressor = AffineRegressor(parent=anchor())
    for x, y in pairs(100):
        regressor.learn_one(x, y)
    before = regressor.predict_one({"size": 10.0})
    for _ in range(20):
        regressor.teach_bound(10.0, 60.0, 0.9)
    assert before < 36.0
    assert regressor.predict_one({"size": 10.0}) > 45.0


@pytest.mark.parametrize("state", [[1.0] * 15, [float("nan")] * 32])
def test_a_damaged_state_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        AffineRegressor(parent=anchor()).restore(state)


def test_sizes_that_lie_teach_nothing_among_measured_ones() -> None:
    honest, lied_to = (AffineRegressor(parent=anchor()) for _ in range(2))
    for i, (x, y) in enumerate(pairs(600)):
        honest.teach(x["size"], y)
        if i % 20 == 19:
            lied_to.teach(8.0 * x["size"], y, trusted=False)
        else:
            lied_to.teach(x["size"], y)
    ratio = lied_to.predict_one({"size": 10.0}) / honest.predict_one({"size": 10.0})
    assert ratio == pytest.approx(1.0, abs=0.02)


def test_sizes_that_are_only_said_teach_where_none_are_measured() -> None:
    regressor = AffineRegressor(parent=anchor())
    for x, y in (*pairs(100), *pairs(100, kappa=6.2, seed=1)):
        regressor.teach(x["size"], y, trusted=False)
    assert regressor.predict_one({"size": 15.0}) == pytest.approx(3.0 + 6.2 * 15.0, rel=0.1)


# Nine clips of the demo and what Whisper-base made of them: some hold long silences, so that
# clips of about the same length have 14 tokens or 43. Seconds, tokens, how often they were sent.
DEMO_CLIPS = (
    (1.55, 5, 14), (2.01, 7, 14), (2.37, 7, 13), (3.52, 8, 13), (7.01, 12, 7),
    (11.67, 43, 8), (11.96, 14, 8), (16.06, 59, 8), (20.42, 15, 8),
)  # fmt: skip


def test_clips_sent_again_and_again_do_not_make_the_denser_ones_outliers() -> None:
    sent = [(size, tokens) for size, tokens, n in DEMO_CLIPS for _ in range(n)]
    mean_size = sum(size for size, _ in sent) / len(sent)
    mean_tokens = sum(tokens for _, tokens in sent) / len(sent)
    ratios = []
    for seed in range(20):
        pipeline = Pipeline()
        for number, (size, tokens) in enumerate(random.Random(seed).sample(sent, len(sent))):
            pipeline.learn_one(
                Completion(completion_id=f"d-{number}", audio_s=size, output_tokens=tokens)
            )
        entry = pipeline.kappa_of(Key("default", "transcribe"))
        expected = entry.intercept_tokens + entry.kappa_tokens_per_s * mean_size
        ratios.append(expected / mean_tokens)
    # Dropping one kind as outliers gave 0.4 to 0.6, and a median of the two 0.8.
    assert 0.93 < sorted(ratios)[10] < 1.07, ratios
    assert sum(0.8 < ratio < 1.25 for ratio in ratios) >= 18, ratios


def test_a_denser_language_is_found_beside_one_clip_that_was_sent_again_and_again() -> None:
    errors = []
    for seed in range(20):
        pipeline = Pipeline()
        rng = random.Random(seed)
        sizes = [rng.uniform(2.0, 25.0) for _ in range(5)]
        clips = [("en", 10.0, 30.0)] * 100
        clips += [("hi", s, (7.0 + 7.2 * s) * rng.lognormvariate(0.0, 0.15)) for s in sizes]
        for number, (language, size, tokens) in enumerate(clips):
            pipeline.learn_one(
                Completion(
                    completion_id=f"d-{number}", language=language, audio_s=size,
                    output_tokens=round(tokens),
                )
            )  # fmt: skip
        entry = pipeline.kappa_of(Key("default", "transcribe", "hi"))
        errors.append((entry.intercept_tokens + 13.5 * entry.kappa_tokens_per_s) / 104.2 - 1.0)
    # Held against the spread of that one clip, five completions left it 45 % low.
    assert abs(statistics.median(errors)) < 0.2, errors


def test_nothing_is_learned_to_give_less_than_a_token_and_speech_comes_back() -> None:
    regressor = AffineRegressor(parent=anchor())
    for size in range(200):
        regressor.learn_one({"size": 5.0 + size % 20}, 0.0)
    assert regressor.predict_one({"size": 15.0}) == pytest.approx(1.0, abs=0.3)
    for x, y in pairs(60):
        regressor.learn_one(x, y)
    assert regressor.predict_one({"size": 15.0}) == pytest.approx(3.0 + 3.1 * 15.0, rel=0.15)


def test_hints_that_lie_from_the_start_teach_nothing() -> None:
    regressor = AffineRegressor(parent=anchor())
    for i, (x, y) in enumerate(pairs(12)):
        if i % 4 == 3:
            regressor.teach(8.0 * x["size"], y, trusted=False)
        else:
            regressor.teach(x["size"], y)
    assert regressor.predict_one({"size": 15.0}) == pytest.approx(3.0 + 3.1 * 15.0, rel=0.15)
