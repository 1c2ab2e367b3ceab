"""How well kappad learns, on the traces in ``benchmarks/traces``.

The contest of learners; changes of κ, in trace order and as concurrent requests finish; drift
events; coverage; spoilt completions; honest mixtures; a new language. All through
`estimator.evaluation`.

Run: ``python -m benchmarks.learning [PART…]`` (all of it about 6 minutes of one core).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from benchmarks.learning import (
    adaptation,
    cold_start,
    contest,
    detection,
    intervals,
    mixtures,
    robustness,
    shrinkage,
    trade_off,
)
from benchmarks.learning.material import speech
from estimator.core.drift import load_detector
from estimator.evaluation.scenarios import Trace

Result = dict[str, Any]  # Any: JSON


def _contest(traces: Sequence[Trace]) -> Result:
    table = contest.measure(traces)
    return {"tables": {"contest": table}, **contest.over_told(table, contest.PIPELINE)}


def _bound(traces: Sequence[Trace]) -> Result:
    return {
        "tables": {
            "error before a change against completions to find it": trade_off.measure(traces)
        }
    }


def _changes(traces: Sequence[Trace]) -> Result:
    table = adaptation.measure_changes(traces)
    trace, completion = (
        table[f"pipeline, from x1.5, {order} order"] for order in ("trace", "completion")
    )
    ratios: Result = {}
    for name in ("cross_p50", "stay_p50", "mae_first_100"):
        own, reference = completion[name], trace[name]
        ratios[f"{name}_completion_over_trace_order"] = (
            own / reference if own is not None and reference else None
        )
    return {"tables": {"changes, language hidden": table}, **ratios}


def _order(traces: Sequence[Trace]) -> Result:
    table = adaptation.measure_order(traces)
    return {
        "tables": {"64 at once, by trace": table},
        "mae_over_trace_order_worst": max(row["mae_over_trace_order"] for row in table.values()),
    }


def _cold_start(traces: Sequence[Trace]) -> Result:
    table = cold_start.measure(traces)
    promised = cold_start.measure_promised(traces)
    oracle = cold_start.measure_oracle(traces)
    among, beside = cold_start.measure_set_oracles(traces)
    return {
        "tables": {
            "κ of the first of 64 at once": table,
            "after 10, told what runs, over many resamples": promised,
            "the same, all known but the level": oracle,
            "the same, eight traces known, but not which it is nor its level": among,
            "the same, the seven other traces known": beside,
        },
        **table["all, completion order"],
        **promised["all"],
        "bias_after_10_worst_trace": _worst_bias(promised.values()),
        "bias_after_10_worst_trace_all_known_but_level": _worst_bias(oracle.values()),
    }


def _worst_bias(rows: Iterable[dict[str, float]]) -> float:
    return max(abs(row["bias_after_10"]) for row in rows)


def _file_order(traces: Sequence[Trace]) -> Result:
    return {"tables": {"in the file's own order": adaptation.measure_file_order(traces)}}


def _intervals(traces: Sequence[Trace]) -> Result:
    table = intervals.measure_stationary(traces)
    after = intervals.measure_after_changes(traces)
    coverages = [row["p90_coverage"] for row in table.values()]
    return {
        "tables": {
            "coverage and width, resamples": table,
            "coverage and width, in the file's own order": intervals.measure_in_order(traces),
        },
        "20_to_220_after_a_change": after,
        "p90_coverage_least": min(coverages),
        "p90_coverage_most": max(coverages),
        "p90_long_run_off_worst": max(abs(row["p90_long_run"] - 0.9) for row in table.values()),
    }


def _robustness(traces: Sequence[Trace]) -> Result:
    table = robustness.measure(traces)
    return {
        "tables": {"moves of κ, spoilt over clean": table},
        "worst_absolute_move": max(row["worst_absolute_move"] for row in table.values()),
        "flood": robustness.measure_flood(traces[0]),
    }


def _mixtures(_traces: Sequence[Trace]) -> Result:
    steady, after, new = (
        mixtures.measure_steady(),
        mixtures.measure_after(),
        mixtures.measure_new(),
    )
    return {
        "tables": {
            "honest mixtures": steady,
            "one clip 200 times, then others": after,
            "a new language beside a known one": new,
        },
        "bias_over_least_squares_worst": mixtures.worst_bias_over_line(steady),
        "rmse_over_least_squares_worst": max(row["rmse_over_line"] for row in steady.values()),
        "new_language_off_after_10_worst": max(row["off_own_10"] for row in new.values()),
    }


def _shrinkage(traces: Sequence[Trace]) -> Result:
    plain = shrinkage.measure(traces)
    doubled = shrinkage.measure([shrinkage.with_more_tokens(trace, 2) for trace in traces])
    return {
        "tables": {
            "a new language, the prior made for such models": plain,
            "a new language, a model of twice as many tokens": doubled,
        },
        **plain["all"],
        **{f"{name}_doubled": value for name, value in doubled["all"].items()},
    }


PARTS: Final[dict[str, Callable[[Sequence[Trace]], Result]]] = {
    "contest": _contest,
    "bound": _bound,
    "changes": _changes,
    "detection": detection.measure,
    "completion_order": _order,
    "cold_start": _cold_start,
    "file_order": _file_order,
    "intervals": _intervals,
    "robustness": _robustness,
    "mixtures": _mixtures,
    "shrinkage": _shrinkage,
}


def main() -> None:
    """Measure the parts that were asked for, all by default, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    wanted = parser.parse_args().parts
    unknown = set(wanted) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    traces = speech()
    load_detector()  # river's import is no learner's time
    result: Result = {}
    for name, part in PARTS.items():
        if wanted and name not in wanted:
            continue
        start = time.process_time()
        result[name] = part(traces)
        print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
