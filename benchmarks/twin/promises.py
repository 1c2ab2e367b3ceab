"""The lines of issue 5 on queues, for `benchmarks.run`: what was to be reached."""

from typing import Final

# What, where in the JSON of ``benchmarks.twin.queues``, comparison, limit: percent against fcfs,
# of E2E unless said otherwise.
Said = tuple[str, str, str, float]

QUEUES: Final[tuple[Said, ...]] = (
    *((f"paper's regime, {what}: percentage points above hrrn's P50, P90 and P99, worst",
       f"paper/beats_hrrn/{path}", "<=", 0.0)
      for what, path in (("E2E", "e2e_worst_points_above_hrrn"),
                         ("TTFT", "ttft_worst_points_above_hrrn"))),
    ("paper's regime, P50", "paper/p50_60/p50_percent", "<=", -60),
    ("the same, P90 and P99", "paper/p50_60/tail_percent", "<=", 32),
    ("paper's regime, another setting, P50", "paper/p50_40/p50_percent", "<=", -40),
    ("the same, P90 and P99", "paper/p50_40/tail_percent", "<=", 27),
    ("decode-bound, the trace's 2,620 rows, P50", "overload/2620_rows/p50_percent", "<=", -60),
    ("the same, P90 and P99", "overload/2620_rows/tail_percent", "<=", 35),
    *(promise for n in ("20000", "100000") for promise in (
        (f"decode-bound, {n} requests, P50", f"overload/{n}_long_runs/p50_percent", "<=", -60),
        ("the same, P90, P99 and longest wait",
         f"overload/{n}_long_runs/tail_and_longest_wait_percent", "<=", 36))),
    *(promise for what, path, tail, limit in (
        ("the paper's regime", "paper/one_for_all", "tail", 32),
        ("decode-bound, the trace's 2,620 rows", "overload/2620_rows_one_for_all", "tail", 35),
        ("decode-bound, 20,000", "overload/20000_one_for_all", "tail_and_longest_wait", 36),
        ("decode-bound, 100,000", "overload/100000_one_for_all", "tail_and_longest_wait", 36))
      for promise in (
          (f"one setting for all, {what}, P50", f"{path}/p50_percent", "<=", -60),
          ("the same, the tail as above", f"{path}/{tail}_percent", "<=", limit))),
    ("worst percentile of E2E and TTFT at loads up to .7, halves",
     "no_help/worst_percent_at_light_load", "<=", 1.0),
)  # fmt: skip
# The same of ``benchmarks.twin.text``.
TEXT: Final[tuple[Said, ...]] = tuple(
    promise
    for part, what in (
        ("own_times", "Azure, merged on arrival"), ("poisson", "Azure, Poisson"),
        ("mooncake", "Azure and 5 % Mooncake"), ("ewsjf", "EWSJF's workload"),
        ("learned", "Azure, lengths learned, short by what is known on arrival"),
        ("mooncake_learned", "Azure and 5 % Mooncake, lengths learned, short likewise"),
        ("ewsjf_learned", "EWSJF's workload, lengths learned"))
    for promise in (
        (f"{what}: TTFT P50 of the short ones, times lower", f"{part}/short_p50_times", ">=", 4),
        (f"{what}: TTFT P99 of the short ones, times lower", f"{part}/short_p99_times", ">=", 4),
        (f"{what}: TTFT P99 of the long ones over fcfs", f"{part}/long_p99_ratio", "<=", 1.3),
        (f"{what}: tokens a second, percent", f"{part}/tokens_per_s_percent", ">=", -0.5),
        (f"{what}: mean batch, percent", f"{part}/mean_batch_percent", ">=", -0.5),
        (f"{what}: mean batch while some wait and others come, percent",
         f"{part}/busy_batch_percent", ">=", -0.5),
        (f"{what}: KV memory held meanwhile, percent", f"{part}/busy_kv_percent", ">=", -0.5),
    )
)  # fmt: skip
# The same of ``benchmarks.twin.cuts``: production's default, but for the guard of the last.
CUTS: Final[tuple[Said, ...]] = tuple(
    promise
    for path, what in (
        ("kinds/chats_0.7", "chats (70 %) beside long documents"),
        ("kinds/chats_0.8", "chats (80 %) beside long documents"),
        ("kinds/chats_0.9", "chats (90 %) beside long documents"),
        ("kinds/chats_learned", "chats (80 %) beside long documents, lengths learned"),
        ("mixes/ewsjf_wide_guard", "EWSJF's workload, φ .5 b₀ 20"),
    )
    for promise in (
        (f"{what}: TTFT P50 of the short ones, times lower", f"{path}/short_p50_times", ">=", 4),
        (f"{what}: TTFT P99 of the short ones, times lower", f"{path}/short_p99_times", ">=", 4),
        (f"{what}: TTFT P99 of the long ones over fcfs", f"{path}/long_p99_ratio", "<=", 1.3),
    )
)
