"""What queues are worth on text: who is short, what the long ones pay, and what the engine does.

Llama-2-13B on four A100 (profile ``a100x4-llama2-13b``: chunked prefill, 8,544 KV blocks, worked
out, not measured), load 1.1, lengths known beforehand or learned from nothing. Compared with
first come, first served over the same requests: TTFT of the short and of the long ones, tokens a
second and what the engine holds. Settings were sought on seeds below 20 and figures are of seeds
from 100 on, but for Azure at its own times: that is one run, whatever the seed, and its φ was
chosen on it.

Run: ``python -m benchmarks.twin.text [PART…]`` (all of it about 7 minutes of one core).
"""

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.twin.contenders import (
    FITTED,
    HALVES,
    HRRN,
    PAPER,
    SJF,
    VLLM,
    Contender,
    guarded,
    two_halves,
)
from benchmarks.twin.material import Row, Table, engine
from benchmarks.twin.parts import run_parts
from benchmarks.twin.text_classes import (
    Definition,
    by_application,
    by_expectation,
    by_file,
    by_prompt,
    by_work,
    told_apart,
)
from benchmarks.twin.text_compared import Case, base_row_of, compared, row_of
from benchmarks.twin.text_mixes import (
    ENGINE,
    LOAD,
    azure,
    azure_at_own_times,
    ewsjf_workload,
    typed,
)
from estimator.replay.runs import EstimateKind

_MOONCAKE_SHARE: Final = 0.05
# Requests and their seed that tell what can be known of a length.
_MANY: Final = 28_000
_MANY_SEED: Final = 50

# Queues cut at the median of all work, known beforehand, and a guard that suits their share: at
# Azure's own times φ .22 lowers the mean batch by .6 %.
CUT: Final = Contender(
    "ewsjf, cut at the median, φ .2 b₀ 12", "ewsjf", guarded(0.2, between="shortest"), cuts=(0.5,)
)
# The same without knowing it: a little more than half, so that who is called short here is.
HALVES_TEXT: Final = Contender("ewsjf, halves .55, φ .28 b₀ 12", "ewsjf", two_halves(0.28, 0.55))
# Where lengths are learned: as many as are short by all that is known of them, and some.
HALVES_LEARNED: Final = Contender(
    "ewsjf, halves .54, φ .35 b₀ 12", "ewsjf", two_halves(0.35, 0.54)
)
# Four fifths are short and one in three of the engine's seconds is theirs: more may pass.
EIGHTY: Final = Contender("ewsjf, halves .83, φ .5 b₀ 20", "ewsjf", two_halves(0.5, 0.83, 20))
EIGHTY_LEARNED: Final = Contender(
    "ewsjf, halves .83, φ .6 b₀ 20", "ewsjf", two_halves(0.6, 0.83, 20)
)

_BY_WORK: Final[Mapping[str, Definition]] = {"by work": by_work}
_BY_FILE: Final[Mapping[str, Definition]] = {"by file": by_file}
_TURNED_OUT: Final = "by work as it turned out"
# First what can be learned of a request before it runs. It is promised, and what it turned out to
# be beside it.
_LEARNED: Final[Mapping[str, Definition]] = {
    "by application and prompt, in the mean": by_expectation,
    _TURNED_OUT: by_work,
    "by application": by_application,
    "by prompt": by_prompt,
}


def _part(case: Case, best: Contender, kind: EstimateKind, *others: Contender) -> Row:
    found, base = compared(case, [(one, kind) for one in (best, *others)])
    profile = engine(ENGINE)
    kv_tokens = profile.slot_context_tokens * profile.slots
    runs = f"{case.at.workload.n:,} requests × {case.seeds}"
    tables: dict[str, Table] = {}
    for name, by_contender in found.items():
        title = f"{case.title}, load {LOAD:g}, {runs}, short and long {name}, over fcfs"
        tables[title] = {one: row_of(figures) for one, figures in by_contender.items()}
        tables[title]["fcfs itself"] = base_row_of(base[name], kv_tokens)
    promised = next(iter(found.values()))[f"{best.name}, {kind}"]
    result: Row = {"tables": tables, "setting": best.name, **promised._asdict()}
    if _TURNED_OUT in found:
        turned_out = found[_TURNED_OUT][f"{best.name}, {kind}"]._asdict()
        result["turned_out"] = {
            name: turned_out[name]
            for name in ("short_p50_times", "short_p99_times", "long_p99_ratio")
        }
    return result


def own_times() -> Row:
    """Compare on Azure's chats and completions at their own times."""
    case = Case("Azure, merged on arrival", azure_at_own_times(), 1, _BY_WORK)
    return _part(case, CUT, "true", HALVES_TEXT, HALVES, SJF, HRRN, FITTED, PAPER, VLLM)


def poisson() -> Row:
    """Compare on Azure's mix in Poisson arrivals."""
    case = Case("Azure, Poisson", azure(6_000), 10, _BY_WORK)
    return _part(case, HALVES_TEXT, "true", CUT, HALVES, SJF, HRRN, VLLM)


def mooncake() -> Row:
    """Compare on Azure's mix with 5 % long contexts."""
    case = Case("Azure and 5 % Mooncake, Poisson", azure(6_000, _MOONCAKE_SHARE), 10, _BY_WORK)
    return _part(case, HALVES_TEXT, "true", CUT, HALVES, SJF, HRRN, VLLM)


def ewsjf() -> Row:
    """Compare on the workload of EWSJF's paper."""
    case = Case("EWSJF's workload", ewsjf_workload(6_000), 10, _BY_FILE)
    result = _part(case, EIGHTY, "true", HALVES, SJF, HRRN, VLLM)
    for table in result["tables"].values():
        table["its paper claims, on real engines"] = {"tokens/s": "+13 to +54 %"}
    return result


def learned() -> Row:
    """Compare with lengths learned from nothing; the gateway tells chat from completion."""
    case = Case("Azure, types told, lengths learned", azure(6_000), 10, _LEARNED, typed)
    result = _part(case, HALVES_LEARNED, "learned", HALVES)
    known = told_apart(azure(_MANY).jobs(_MANY_SEED), _LEARNED)
    result["tables"] |= known.pop("tables")
    return result | known


def untold() -> Row:
    """Compare likewise where types are not told, or not trusted, as by default."""
    case = Case("Azure, types untold, lengths learned", azure(6_000), 3, _LEARNED)
    return _part(case, HALVES_LEARNED, "learned", HALVES)


def mooncake_learned() -> Row:
    """Compare with 5 % long contexts, lengths learned from nothing, types told."""
    at = azure(6_000, _MOONCAKE_SHARE)
    case = Case("Azure and 5 % Mooncake, types told, lengths learned", at, 10, _LEARNED, typed)
    return _part(case, HALVES_LEARNED, "learned", HALVES)


def ewsjf_learned() -> Row:
    """Compare on the workload of EWSJF's paper, lengths learned from nothing."""
    case = Case("EWSJF's workload, lengths learned", ewsjf_workload(6_000), 10, _BY_FILE)
    return _part(case, EIGHTY_LEARNED, "learned", HALVES)


PARTS: Final[dict[str, Callable[[], Row]]] = {
    "own_times": own_times,
    "poisson": poisson,
    "mooncake": mooncake,
    "ewsjf": ewsjf,
    "learned": learned,
    "untold": untold,
    "mooncake_learned": mooncake_learned,
    "ewsjf_learned": ewsjf_learned,
}


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
