"""Where two queues are best cut: by count, by the share of the work, or at a gap.

Production cuts near the median of the requests, and at a gap of the works where no more than φ of
the work lies below it. Others cut where the short hold a share of the work (`baselines.cuts`).
The same requests for all, production's other settings.

Run: ``python -m benchmarks.twin.cuts [PART…]`` (all of it about 3 minutes of one core).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.baselines.cuts import NAMES
from benchmarks.twin import queues
from benchmarks.twin.contenders import HALVES, Contender
from benchmarks.twin.material import ENCODER_BOUND, SPEECH, Row, Scene, Table, engine, scene
from benchmarks.twin.parts import run_parts
from benchmarks.twin.text_classes import Definition, by_file, by_work
from benchmarks.twin.text_compared import Case, Compared, compared, row_of
from benchmarks.twin.text_mixes import LOAD, Kind, azure, ewsjf_workload, kinds_beside
from estimator.replay.runs import EstimateKind
from sched_client.model import Settings

_TITLES: Final = dict(
    zip(
        NAMES,
        (
            "by count alone",
            "by the work",
            "by count or work, the higher",
            "by count or work, the lower",
        ),
        strict=True,
    )
)
CONTENDERS: Final = (
    HALVES,
    *(Contender(_TITLES[name], name, Settings()) for name in NAMES),
)
# The guard that lets the short kind of EWSJF's workload pass: 41 % of the work, at load 1.1.
_WIDE: Final = replace(Settings(), phi=0.5, burst_requests=20.0)


def documents(n: int, chats: float) -> Scene:
    """Give chats, a share of the requests, beside long documents."""
    return kinds_beside(
        n,
        (
            Kind("chats", (32, 256), 128, chats),
            Kind("documents", (3_000, 8_192), 512, 1.0 - chats),
        ),
    )


def speech() -> Row:
    """Compare on LibriSpeech, which is one broad class."""
    cases = (
        ("paper's regime, 500 requests", queues.paper_scene(500), 20),
        ("65 requests at load 1.5 on two CPU cores",
         scene(engine("cpu-whisper-base"), SPEECH, 1.5, 65), 40),
        ("decode-bound, load 1.2, 2,620 requests", queues.decode_scene(2_620), 5),
        ("decode-bound, load 1.2, 20,000 requests", queues.decode_scene(20_000), 2),
        ("encoder-bound, load 1.2, 10,000 requests", scene(ENCODER_BOUND, SPEECH, 1.2, 10_000), 2),
    )  # fmt: skip
    tables = {}
    for name, at, seeds in cases:
        table, _ = queues.compared(queues.Case(name, at, seeds, CONTENDERS))
        tables[f"{name} × {seeds}, % against fcfs"] = table
    return {"tables": tables}


def _text(
    title: str,
    at: Scene,
    short: Definition,
    kind: EstimateKind,
    contenders: Sequence[Contender] = CONTENDERS,
) -> tuple[dict[str, Table], Compared]:
    """Give the table, and the first contender's figures."""
    case = Case(title, at, 3, {"": short})
    found = compared(case, [(one, kind) for one in contenders])[0][""]
    heading = f"{title}, load {LOAD:g}, {at.workload.n:,} requests × {case.seeds}, over fcfs"
    table = {name: row_of(one) for name, one in found.items()}
    return {heading: table}, found[f"{contenders[0].name}, {kind}"]


def mixes() -> Row:
    """Compare on mixed text, true lengths."""
    tables: dict[str, Table] = {}
    for title, at, short in (
        ("Azure, Poisson", azure(3_000), by_work),
        ("Azure and 5 % Mooncake", azure(3_000, 0.05), by_work),
        ("EWSJF's workload", ewsjf_workload(3_000), by_file),
    ):
        tables |= _text(title, at, short, "true")[0]
    wide = [_wide(one) for one in CONTENDERS[:2]]
    table, found = _text("EWSJF's workload", ewsjf_workload(6_000), by_file, "true", wide)
    return {"tables": tables | table, "ewsjf_wide_guard": found._asdict()}


def _wide(one: Contender) -> Contender:
    """Give a contender under the wide guard."""
    return one._replace(name=f"{one.name}, φ .5 b₀ 20", settings=_WIDE)


def kinds() -> Row:
    """Compare where chats come beside long documents, lengths known or learned from nothing."""
    result: Row = {"tables": {}}
    for share in (0.7, 0.8, 0.9):
        title = f"chats ({share:.0%}) beside long documents"
        table, found = _text(title, documents(4_000, share), by_file, "true")
        result["tables"] |= table
        result[f"chats_{share:g}"] = found._asdict()
    title = "chats (80%) beside long documents, lengths learned"
    table, found = _text(title, documents(4_000, 0.8), by_file, "learned", CONTENDERS[:2])
    result["tables"] |= table
    result["chats_learned"] = found._asdict()
    return result


PARTS: Final[dict[str, Callable[[], Row]]] = {"speech": speech, "mixes": mixes, "kinds": kinds}


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
