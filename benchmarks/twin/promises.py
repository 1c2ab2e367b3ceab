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
        ("the paper's regime", "paper/default", "tail", 32),
        ("decode-bound, the trace's 2,620 rows", "overload/2620_rows_default", "tail", 35),
        ("decode-bound, 20,000", "overload/20000", "tail_and_longest_wait", 36),
        ("decode-bound, 100,000", "overload/100000", "tail_and_longest_wait", 36))
      for promise in (
          (f"the default for all, {what}, P50", f"{path}/p50_percent", "<=", -60),
          ("the same, the tail as above", f"{path}/{tail}_percent", "<=", limit))),
    ("worst percentile of E2E and TTFT at loads up to .7, halves",
     "no_help/worst_percent_at_light_load", "<=", 1.0),
)  # fmt: skip


def _ttft(what: str, path: str) -> tuple[Said, ...]:
    """Give what was to be reached for the short and the long requests of mixed text."""
    return (
        (f"{what}: TTFT P50 of the short ones, times lower", f"{path}/short_p50_times", ">=", 4),
        (f"{what}: TTFT P99 of the short ones, times lower", f"{path}/short_p99_times", ">=", 4),
        (f"{what}: TTFT P99 of the long ones over fcfs", f"{path}/long_p99_ratio", "<=", 1.3),
    )


# The same of ``benchmarks.twin.text``. Where lengths are learned, of who is short as far as can
# be told beforehand, and of who turned out to be.
TEXT: Final[tuple[Said, ...]] = (
    *(promise
      for part, what in (
          ("own_times", "Azure, merged on arrival"), ("poisson", "Azure, Poisson"),
          ("mooncake", "Azure and 5 % Mooncake"), ("ewsjf", "EWSJF's workload"),
          ("learned", "Azure, lengths learned, short in the mean of its type and prompt"),
          ("mooncake_learned", "Azure and 5 % Mooncake, lengths learned, short likewise"),
          ("ewsjf_learned", "EWSJF's workload, lengths learned"))
      for promise in (
          *_ttft(what, part),
          (f"{what}: tokens a second, percent", f"{part}/tokens_per_s_percent", ">=", -0.5),
          (f"{what}: mean batch, percent", f"{part}/mean_batch_percent", ">=", -0.5),
          (f"{what}: mean batch while some wait and others come, percent",
           f"{part}/busy_batch_percent", ">=", -0.5),
          (f"{what}: KV memory held meanwhile, percent", f"{part}/busy_kv_percent", ">=", -0.5))),
    *_ttft("Azure, lengths learned, short as it turned out", "learned/turned_out"),
    *_ttft("Azure and 5 % Mooncake, lengths learned, short as it turned out",
           "mooncake_learned/turned_out"),
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
    for promise in _ttft(what, path)
)
