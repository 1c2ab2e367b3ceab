"""Which request comes when: in order, in sequence, mixed, drawn, at a trace's own times."""

import itertools
from collections import Counter

import pytest

from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.rows import Rows
from estimator.replay.workload import Workload
from sched_client.model import WHISPER_MAX_TOKENS

OWN_TIMES = Arrivals(kind="trace")


def rows_of(name: str, tokens: list[int], arrivals_s: list[float] | None = None) -> Rows:
    rows = Rows(name)
    for index, n in enumerate(tokens):
        arrival_s = None if arrivals_s is None else arrivals_s[index]
        completion = Completion(completion_id="x", audio_s=1.0 + n, output_tokens=n)
        rows.append(completion, arrival_s=arrival_s)
    return rows


def jobs_of(workload: Workload, *, rate_rps: float | None = 10.0, seed: int = 0) -> list[Job]:
    arrivals = OWN_TIMES if rate_rps is None else Arrivals()
    return list(workload.jobs(arrivals, rate_rps=rate_rps, seed=seed))


A, B = rows_of("a", [1, 2, 3, 4]), rows_of("b", [11, 12])


def test_all_rows_come_in_the_files_order_one_file_after_another() -> None:
    jobs = jobs_of(Workload(files=(A, B), n=6))
    assert [job.output_tokens for job in jobs] == [1, 2, 3, 4, 11, 12]
    assert [job.segment for job in jobs] == [0, 0, 0, 0, 1, 1]
    assert [job.index for job in jobs] == list(range(6))


def test_fewer_requests_are_the_first_of_each_file() -> None:
    workload = Workload(files=(A, B), n=3)
    assert [job.output_tokens for job in jobs_of(workload)] == [1, 2, 11]
    assert workload.describe() == "3 requests: 2 of a (in its order), then 1 of b (in its order)"


def test_more_requests_than_rows_are_drawn_with_replacement_from_each_file_in_turn() -> None:
    workload = Workload(files=(A, B), n=4000)
    jobs = jobs_of(workload)
    first, second = jobs[:2000], jobs[2000:]
    assert {job.segment for job in first} == {0}
    assert {job.segment for job in second} == {1}
    counts = Counter(job.output_tokens for job in first)
    # Binomial(2000, ¼): a standard deviation of 19.
    assert all(400 < counts[tokens] < 600 for tokens in (1, 2, 3, 4))
    assert "drawn with replacement" in workload.describe()


def test_a_resampled_workload_is_drawn_whatever_its_number() -> None:
    tokens = [job.output_tokens for job in jobs_of(Workload(files=(A,), n=4, resample=True))]
    assert len(tokens) == 4
    assert any(
        [job.output_tokens for job in jobs_of(Workload(files=(A,), n=4, resample=True), seed=seed)]
        != [1, 2, 3, 4]
        for seed in range(3)
    )


def test_a_mix_draws_by_the_weights() -> None:
    workload = Workload(files=(A, B), n=4000, weights=(3.0, 1.0))
    share = sum(job.segment == 0 for job in jobs_of(workload)) / 4000
    assert share == pytest.approx(0.75, abs=0.03)
    assert workload.describe() == "4,000 requests, mixed of 75% a, 25% b, drawn with replacement"


def test_a_seed_fixes_the_requests_at_every_rate() -> None:
    workload = Workload(files=(A, B), n=50, weights=(1.0, 1.0))
    slow, fast = jobs_of(workload, rate_rps=1.0, seed=3), jobs_of(workload, rate_rps=9.0, seed=3)
    assert [job._replace(arrival_ns=0) for job in slow] == [
        job._replace(arrival_ns=0) for job in fast
    ]
    assert slow == jobs_of(workload, rate_rps=1.0, seed=3)
    others = jobs_of(workload, rate_rps=1.0, seed=4)
    assert [job.output_tokens for job in slow] != [job.output_tokens for job in others]


def test_a_million_requests_are_a_stream() -> None:
    stream = Workload(files=(A,), n=1_000_000).jobs(Arrivals(), rate_rps=10.0, seed=0)
    assert [job.index for job in itertools.islice(stream, 3)] == [0, 1, 2]


def test_own_times_start_at_zero_and_are_kept() -> None:
    workload = Workload(files=(rows_of("t", [1, 2, 3], [5.0, 5.5, 7.0]),), n=3, timed=True)
    times = [job.arrival_ns for job in jobs_of(workload, rate_rps=None)]
    assert times == [0, NS_PER_S // 2, 2 * NS_PER_S]
    assert workload.own_rate_rps(0) == pytest.approx(1.0)


def test_own_times_are_stretched_to_a_rate() -> None:
    workload = Workload(files=(rows_of("t", [1, 2, 3], [5.0, 5.5, 7.0]),), n=3, timed=True)
    times = [job.arrival_ns for job in workload.jobs(OWN_TIMES, rate_rps=0.5, seed=0)]
    assert times == [0, NS_PER_S, 4 * NS_PER_S]


def test_the_second_file_begins_a_mean_gap_after_the_first() -> None:
    first, second = rows_of("t", [1, 2], [1.0, 2.0]), rows_of("u", [3, 4], [7.0, 10.0])
    jobs = jobs_of(Workload(files=(first, second), n=4, timed=True), rate_rps=None)
    assert [job.arrival_ns // NS_PER_S for job in jobs] == [0, 1, 4, 7]


def test_mixed_files_share_a_clock_and_are_thinned_by_weight() -> None:
    n = 2000
    first = rows_of("t", [1] * n, [float(i) for i in range(n)])
    second = rows_of("u", [2] * n, [i + 0.5 for i in range(n)])
    even = Workload(files=(first, second), n=2 * n, weights=(1.0, 1.0), timed=True)
    both = jobs_of(even, rate_rps=None)
    assert [job.output_tokens for job in both[:4]] == [1, 2, 1, 2]
    assert len(both) == 2 * n
    assert even.own_rate_rps(0) == pytest.approx(2.0, rel=0.001)
    thinned = Workload(files=(first, second), n=2 * n, weights=(1.0, 0.25), timed=True)
    assert thinned.describe().endswith("mixed of 80% t, 20% u, side by side at their own times")
    assert thinned.mean_tokens == pytest.approx(1.2)
    fewer = jobs_of(thinned, rate_rps=None)
    counts = Counter(job.output_tokens for job in fewer)
    assert counts[1] == n
    assert counts[2] == pytest.approx(n / 4, rel=0.15)
    assert [job.arrival_ns for job in fewer] == sorted(job.arrival_ns for job in fewer)


def test_a_saturated_engine_has_all_requests_at_once_by_their_shares() -> None:
    jobs = list(Workload(files=(A, B), n=6).saturated(3000, seed=0))
    assert {job.arrival_ns for job in jobs} == {0}
    assert sum(job.segment == 0 for job in jobs) / 3000 == pytest.approx(4 / 6, abs=0.03)


def test_nobody_leaves_a_saturated_engine_and_who_left_takes_what_was_made_for_it() -> None:
    rows = Rows("left")
    left = Completion(
        completion_id="x", audio_s=1.0, output_tokens=5, finish_reason="aborted", wait_s=1.0
    )
    rows.append(left)
    workload = Workload(files=(rows,), n=1)
    job = jobs_of(workload)[0]
    assert job.abort_ns is not None
    assert job.output_tokens == WHISPER_MAX_TOKENS
    saturated = list(workload.saturated(2, seed=0))
    assert [(job.abort_ns, job.output_tokens) for job in saturated] == [(None, 5)] * 2
    assert workload.mean_tokens == 5.0


def test_rows_that_do_not_come_count_in_no_capacity_and_no_mean() -> None:
    rows = rows_of("t", [1, 3, 100, 100])
    first = Workload(files=(rows, B), n=4)
    assert {job.output_tokens for job in first.saturated(200, seed=0)} == {1, 3, 11, 12}
    assert first.mean_tokens == pytest.approx((1 + 3 + 11 + 12) / 4)
    drawn = Workload(files=(rows,), n=2, resample=True)
    assert {job.output_tokens for job in drawn.saturated(200, seed=0)} == {1, 3, 100}
    one_of_two = Workload(files=(B, rows), n=1)
    assert {job.output_tokens for job in one_of_two.saturated(20, seed=0)} == {11}
    assert one_of_two.mean_tokens == 11.0


def test_means_weigh_the_files_by_their_shares() -> None:
    assert Workload(files=(A, B), n=6).mean_tokens == pytest.approx((10 + 23) / 6)
    mixed = Workload(files=(A, B), n=6, weights=(1.0, 3.0))
    assert mixed.mean_tokens == pytest.approx(0.25 * 2.5 + 0.75 * 11.5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"files": (), "n": 1}, "at least one request"),
        ({"files": (A,), "n": 0}, "0 requests, the limits are 1 and 10,000,000"),
        ({"files": (A,), "n": 10_000_001}, "10,000,001 requests"),
        ({"files": (A, B), "n": 6, "weights": (1.0,)}, "1 weights for 2 files; give one for each"),
        ({"files": (A, B), "n": 6, "weights": (1.0, 0.0)}, "weights are 1,0; each must be"),
    ],
)
def test_impossible_workloads_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Workload(**values)  # type: ignore[arg-type]  # wrong on purpose


def test_own_times_need_enough_rows_and_a_clock() -> None:
    timed = rows_of("t", [1, 2], [0.0, 1.0])
    with pytest.raises(
        ValueError, match=r"t has 2 requests of its own time, not 5; ask for fewer"
    ):
        Workload(files=(timed,), n=5, timed=True)
    with pytest.raises(ValueError, match="a: rows lack arrival_s"):
        Workload(files=(A,), n=4, timed=True)
    with pytest.raises(ValueError, match="drawn at random have no times"):
        Workload(files=(timed,), n=2, timed=True, resample=True)
    at_once = Workload(files=(rows_of("t", [1, 2], [3.0, 3.0]),), n=2, timed=True)
    with pytest.raises(ValueError, match=r"come all at once: .* take other arrivals"):
        list(at_once.jobs(OWN_TIMES, rate_rps=2.0, seed=0))
    alone = Workload(files=(rows_of("t", [1], [3.0]),), n=1, timed=True)
    with pytest.raises(ValueError, match=r"are fewer than two: .* take other arrivals"):
        alone.own_rate_rps(seed=0)
    with pytest.raises(ValueError, match="timed if, and only if"):
        Workload(files=(timed,), n=2).jobs(OWN_TIMES, rate_rps=None, seed=0)


@pytest.mark.parametrize("weights", [(), (2.0, 2.0), (2.0, 1.0)])
def test_own_times_are_fixed_unless_files_are_thinned(weights: tuple[float, ...]) -> None:
    times = [float(index) for index in range(20)]
    files = tuple(rows_of(name, [1] * 20, times) for name in "tu")
    workload = Workload(files=files, n=40, weights=weights, timed=True)
    runs = [jobs_of(workload, rate_rps=None, seed=seed) for seed in (0, 1)]
    assert (runs[0] == runs[1]) is workload.is_fixed is (len(set(weights)) < 2)
    assert not Workload(files=files, n=40).is_fixed


def test_thinned_files_come_at_exactly_the_rate_asked_for() -> None:
    times = [float(index) for index in range(200)]
    files = tuple(rows_of(name, [1] * 200, times) for name in "tu")
    workload = Workload(files=files, n=400, weights=(2.0, 1.0), timed=True)
    assert workload.own_rate_rps(5) != workload.own_rate_rps(0)
    jobs = list(workload.jobs(OWN_TIMES, rate_rps=3.0, seed=5))
    rate_rps = (len(jobs) - 1) * NS_PER_S / jobs[-1].arrival_ns
    assert rate_rps == pytest.approx(3.0, rel=1e-6)


def test_a_missing_rate_is_said() -> None:
    with pytest.raises(ValueError, match="a rate is missing"):
        Workload(files=(A,), n=4).jobs(Arrivals(), rate_rps=None, seed=0)
