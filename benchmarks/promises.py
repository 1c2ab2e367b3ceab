"""What the benchmarks must show: a figure, where to find it, and its limit.

A line is what in an operator's words with the unit, keys into the benchmark's JSON joined by
``/``, ``<=`` or ``>=``, and the limit. `benchmarks.run` says of each whether it was kept.
"""

from typing import Final

from benchmarks.twin.promises import CUTS, QUEUES, TEXT

Promised = tuple[str, str, str, float]

# Of ``benchmarks.service``.
_SERVICE: Final = (
    ("service events while the load goes from 0.3 to 1.2 and back", "load_events", "<=", 0),
    ("largest move of a typical estimate by load, share", "load_largest_move", "<=", 0.05),
    ("a machine 1.5 times slower reported within 60, modelled engines, loads 0.05 to 1.2, share",
     "slower_within_60_ratio", ">=", 0.99),
    ("completions until T = a + b·n is right within 2 %, one at a time",
     "alone_right_from_worst", "<=", 100),
    *((f"error of text over the median by type, {name}", f"text/{name}/mae_p50_over_median", "<=",
       limit)
      for name, limit in (("conv", 0.6), ("code", 1.05), ("both, by arrival", 0.6))),
)  # fmt: skip
# The same of ``benchmarks.drift``.
_DRIFT: Final = (
    ("false events of all kinds in 200,000 resampled completions", "false_per_200k", "<=", 1),
    ("x1.5 and /1.5 within 40, spread up to .3, share on the worst trace",
     "narrow_within_40", ">=", 0.99),
    ("x1.5 and /1.5 within 80, spread above .3, share on the worst trace",
     "wide_within_80", ">=", 0.95),
    ("LibriSpeech's lengths to uniform over 5 to 30 s within 60, share",
     "lengths/within_60", ">=", 0.99),
)  # fmt: skip
# The same of ``benchmarks.twin_speed``.
_TWIN_SPEED: Final = (
    ("simulated requests a second, one core, LibriSpeech, sjf by duration, load 1.2, 64 slots",
     "requests_per_s/sjf_duration", ">=", 30_000),
    ("the same, drawing the requests and the figures included",
     "requests_per_s/replay_sjf_duration", ">=", 30_000),
    *((f"cost of a request while 200,000 wait over 2,000, {name}", f"waiting/{name}/ratio", "<=",
       1.5) for name in ("fcfs", "sjf", "hrrn")),
    ("MiB that memory grows by from 100,000 to 1,000,000 requests", "memory/growth_mib", "<=", 10),
)  # fmt: skip
# What, where in the JSON of ``benchmarks.learning``, comparison, limit.
_LEARNING: Final = (
    ("error where nothing changes, over the cumulative learner's",
     "contest/tables/contest/pipeline (kappad)/iid_over_cumulative", "<=", 1.005),
    *((f"completions to {how} after x1.5, {who}, over the told learner's",
       f"contest/{path}_over_told", "<=", 1.5)
      for path, how, who in (
          ("cross_p50", "cross into ±10 %", "median"), ("cross_p90", "cross into ±10 %", "p90"),
          ("stay_p50", "stay for 20", "median"), ("stay_p90", "stay for 20", "p90"))),
    ("completions to cross after x1.5, completion order over trace order, median",
     "changes/cross_p50_completion_over_trace_order", "<=", 1.3),
    ("completions to stay for 20 after x1.5, completion order over trace order, median",
     "changes/stay_p50_completion_over_trace_order", "<=", 1.3),
    ("error in completion order over trace order, worst trace",
     "completion_order/mae_over_trace_order_worst", "<=", 1.3),
    ("bias of κ after 10 of 64 concurrent requests, worst trace, 240 seeds",
     "cold_start/bias_after_10_worst_trace", "<=", 0.05),
    ("changes of x1.5 reported within 40, relative spread up to .3",
     "detection/kappa/narrow/reported_within_40_ratio", ">=", 0.99),
    ("changes of x1.5 reported within 80, relative spread above .3",
     "detection/kappa/wide/reported_within_80_ratio", ">=", 0.95),
    ("false drift events in 200,000 i.i.d. completions",
     "detection/stationary/events_per_200000", "<=", 1),
    ("a shift from LibriSpeech's lengths to 5-30 s reported within 60, share",
     "detection/mix/reported_within_60_ratio", ">=", 0.99),
    ("a machine 1.5 times slower reported within 60, share",
     "detection/service/reported_within_60_ratio", ">=", 0.99),
    ("p90 coverage, least of the traces", "intervals/p90_coverage_least", ">=", 0.88),
    ("p90 coverage, most of the traces", "intervals/p90_coverage_most", "<=", 0.92),
    *((f"p90 coverage over completions 20 to 220 after a change of x1.2 and more, {which} pair",
       f"intervals/20_to_220_after_a_change/p90_coverage_{which}_pair", how, limit)
      for which, how, limit in (("least", ">=", 0.88), ("most", "<=", 0.92))),
    ("p90 coverage over 12,000 completions, off by at most",
     "intervals/p90_long_run_off_worst", "<=", 0.005),
    ("move of κ by spoilt completions, worst", "robustness/worst_absolute_move", "<=", 0.03),
    ("move of a known key by 100,000 invented languages",
     "robustness/flood/known_key_move", "<=", 0),
    ("bias of the mean where clips are of two densities, beside least squares', worst",
     "mixtures/bias_over_least_squares_worst", "<=", 0.03),
    ("error over a new language's first 20 completions, known model over fresh one",
     "shrinkage/known_over_fresh", "<=", 0.7),
    ("the same, a model of twice as many tokens as the prior expects",
     "shrinkage/known_over_fresh_doubled", "<=", 0.7),
)  # fmt: skip
# The same of ``benchmarks.twin``.
_TWIN: Final = (
    *((f"{what}, gateway mix, {policy}, guard {guard}, share",
       f"worth/gateway/{policy}, guard {guard}/{path}", ">=", limit)
      for what, path, limit in (
          ("mean E2E that the true length takes off duration-only", "gap_ratio", 0.1),
          ("part of it that learning closes, cold", "closed_ratio", 0.8))
      for policy in ("sjf", "hrrn") for guard in ("on", "off")),
    ("worst percentile against fcfs at loads up to .7, Poisson, percent",
     "low_load/worst_percent/Poisson, reorder_above 8", "<=", 1.0),
    ("requests served beyond the guard's bound", "guard/bound/requests_beyond", "<=", 0),
    ("most of its bound that any request came to, share",
     "guard/bound/largest_share_of_bound", "<=", 1.000000001),
    ("callers' mean wait with groups over pieces alone, worst policy, engine and load, percent",
     "groups/worst_mean_percent", "<=", 0.0),
)  # fmt: skip

# The same of ``benchmarks.policies``: a call, and an arrival with all that follows until its pop.
_POLICIES: Final = (
    *((f"{what}, {policy}, {waiting} waiting, median µs", f"{path}/{policy}/{waiting}", "<=",
       limit)
      for what, path in (("the dearest call", "slowest_call"), ("add, peek and pop", "turn"))
      for waiting, limit in ((100, 8), (10_000, 15), (100_000, 25))
      for policy in ("fcfs", "sjf", "hrrn", "ewsjf", "ewsjf, halves", "ewsjf-paper")),
    *((f"add, peek and pop, hrrn, {waiting} waiting, each shorter than all before, mean µs",
       f"ever_shorter/{waiting}", "<=", limit)
      for waiting, limit in ((20_000, 100), (100_000, 150))),
)  # fmt: skip
# The same of ``benchmarks.partition``.
_PARTITION: Final = (
    ("1 to 6 known classes, right count, 200 seeds, less of two kinds, share",
     "known/least_right_ratio", ">=", 0.95),
    ("splits of one log-normal class by the gap test, 600 samples", "one_class/splits", "<=", 1),
    ("eleven shapes of one class are one queue, two uniforms two, 2,000 points, 50 seeds, least",
     "non_normal/least_right_ratio/2000", ">=", 0.95),
    ("changes of the number of queues after warm-up, i.i.d. streams of 50,000, most",
     "stationary/most_count_changes", "<=", 1),
    ("largest move of a boundary there, share", "stationary/largest_move_ratio", "<=", 0.05),
    ("requests of a new class until it has a queue, most of 24 runs",
     "new_class/most_requests", "<=", 200),
    ("CPU of a fit of 10,000 points, ms, worst of 1, 4 and 8 classes",
     "cost/worst_fit_ms", "<=", 250),
    ("CPU of a completion, µs", "cost/observe_us", "<=", 1.0),
)  # fmt: skip
# The same of ``benchmarks.twin_paper``.
_TWIN_PAPER: Final = (
    ("SJF and HRRN of the paper predicted, 72 numbers, median error (ln)", "held_out/median",
     "<=", 0.12),
    ("the same, P90", "held_out/p90", "<=", 0.40),
    ("the same on 40 seeds that the fit did not see, median",
     "held_out_other_seeds/median", "<=", 0.12),
    ("the same, P90", "held_out_other_seeds/p90", "<=", 0.40),
)  # fmt: skip
# The same of ``benchmarks.twin_engine``, from a recording and from an engine that is run.
_TWIN_ENGINE_RECORDED: Final = (
    ("P50 and P90 at another rate, recorded, largest relative error",
     "calibrated_on_run_0/worst_error_at_another_rate", "<=", 0.2),
)  # fmt: skip
_TWIN_ENGINE: Final = (
    ("P50 and P90 of real vLLM at another rate, largest relative error",
     "calibrated_on_run_0/worst_error_at_another_rate", "<=", 0.2),
)  # fmt: skip
# The same of ``benchmarks.server``.
_SERVER: Final = (
    ("completions stored and learned a second, batches of 256",
     "ingest/stored_and_learned_per_s", ">=", 10_000),
    ("the same with all that is learned, drift and queues on, one core",
     "ingest/stored_and_learned_per_s", ">=", 15_000),
    ("BatchPredict of 256 over an echo server", "predict/ratio", "<=", 3.5),
    ("resident MiB after 1,000,000 completions", "memory/rss_last_mib", "<=", 300),
    ("growth of it from 200,000 to 1,000,000 completions, share",
     "memory/growth_ratio", "<=", 0.05),
    ("seconds to SERVING, empty store", "start/serving_empty_s", "<=", 3),
    ("seconds to SERVING, 1,000,000 completions and no checkpoint",
     "start/serving_without_checkpoint_s", "<=", 5),
    ("seconds to SERVING, 1,000,000 completions and a checkpoint",
     "start/serving_again_s", "<=", 5),
)  # fmt: skip
# The same of ``benchmarks.server_fits``.
_SERVER_FITS: Final = (
    ("resident MiB that fitting queues adds to the sidecar", "added_rss_mib", "<=", 30),
    ("P99 of BatchPredict of 1 while queues are fitted all the time, over never",
     "p99_ratio", "<=", 1.5),
    ("seconds until each of 40 models that become due at once has its first queues, most",
     "many_models/first_queues_most_s", "<=", 20),
    ("completions learned a CPU second meanwhile, over never fitting",
     "many_models/rate_ratio", ">=", 0.85),
)  # fmt: skip
# The same of ``benchmarks.scheduler``.
_SCHEDULER: Final = tuple(
    (f"{what}, {policy}", f"{policy}/{path}", "<=", limit)
    for policy in ("ewsjf", "sjf", "hrrn")
    for what, path, limit in (
        ("added per request, median µs", "added_per_request/median_us", 60),
        ("added per request, p99 µs of what comes back in three rounds",
         "added_per_request/repeating_p99_us", 100),
        ("added per schedule() with 1,000 waiting, median µs",
         "added_per_schedule/median_us", 20),
    )
)  # fmt: skip
# The same of ``benchmarks.preemption``.
_PREEMPTION: Final = (
    ("tokens computed again, preempting the least lost over vLLM's choice, median",
     "median_recomputed_ratio", "<=", 0.75),
)  # fmt: skip
# The same of ``benchmarks.link``.
_LINK: Final = tuple(
    (f"p99 of schedule() over idle, {what}", f"{phase}/cpu_p99_ratio_to_idle", "<=", 1.1)
    for phase, what in (
        ("frozen", "sidecar frozen"),
        ("snapshots", "5,000 keys five times a second"),
        ("deltas", "100 changed keys five times a second"),
    )
)
# The same of ``benchmarks.engine``, with few requests and with many.
_ENGINE: Final = (
    ("gain of P50 over FCFS at 1.5 times the capacity, share",
     "loads/1.5/p50_gain_ratio_median", ">=", 0.35),
    ("throughput over FCFS at 1.5 times the capacity, 60 requests and their end",
     "loads/1.5/throughput_ratio_median", ">=", 0.99),
)  # fmt: skip
_ENGINE_LONG: Final = (
    ("throughput over FCFS at 1.5 times the capacity, 240 requests",
     "loads/1.5/throughput_ratio_median", ">=", 0.99),
)  # fmt: skip

# By the benchmark's name in `benchmarks.listing`.
PROMISES: Final[dict[str, tuple[Promised, ...]]] = {
    "policies": _POLICIES,
    "learning": _LEARNING,
    "drift": _DRIFT,
    "partition": _PARTITION,
    "service": _SERVICE,
    "twin": _TWIN,
    "twin_queues": QUEUES,
    "twin_text": TEXT,
    "twin_cuts": CUTS,
    "twin_paper": _TWIN_PAPER,
    "twin_engine_recorded": _TWIN_ENGINE_RECORDED,
    "twin_engine": _TWIN_ENGINE,
    "twin_speed": _TWIN_SPEED,
    "server": _SERVER,
    "server_fits": _SERVER_FITS,
    "scheduler": _SCHEDULER,
    "preemption": _PREEMPTION,
    "link": _LINK,
    "engine": _ENGINE,
    "engine-long": _ENGINE_LONG,
}
