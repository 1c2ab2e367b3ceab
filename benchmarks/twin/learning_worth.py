"""What learning is worth: mean E2E by duration, by learned estimates, and knowing the length.

``gap`` is what knowing the true length takes off the mean E2E of duration-only, ``closed`` the
share of it that learned estimates take off, which begin cold. By duration every second of audio
counts the same, and so does every text.

With the guard on, learned estimates also learn the mean work that scales its burst, while the
other two are told the mix's mean: with the guard off only the order differs.
"""

from statistics import fmean
from typing import Final, NamedTuple

from benchmarks.twin.material import (
    GUARDS,
    LIBRISPEECH,
    Interval,
    Mix,
    Row,
    Scene,
    Table,
    engine,
    interval,
    scene,
    shown,
)
from estimator.replay.figures import Figures
from estimator.replay.runs import EstimateKind

# Eight in nine are English clips, the rest chat, creation, summarization: each told by its type.
# Those that order by length alone; by halves only two lengths differ.
_POLICIES: Final = ("sjf", "hrrn")
GATEWAY: Final = Mix("gateway", ((LIBRISPEECH, 8.0), ("apex-three-classes", 1.0)))
CHATS: Final = Mix("speech and chat", ((LIBRISPEECH, 4.0), ("azure-llm-2023-conv", 1.0)))
FIVE_LANGUAGES: Final = Mix(
    "five languages",
    (
        (LIBRISPEECH, 1.0),
        ("ud-french-parisstories", 1.0),
        ("aishell1-test", 1.0),
        ("tedxjp10k-ja-chars", 1.0),
        ("commonvoice-id", 1.0),
    ),
)
_KINDS: Final[tuple[EstimateKind, ...]] = ("duration", "learned", "true")
# A gap below this share of the mean is not worth closing, and its quotients are noise.
_WORTH: Final = 0.02


class Trial(NamedTuple):
    """What is compared where."""

    mix: Mix
    engine: str
    load: float
    n: int
    seeds: int
    guards: tuple[str, ...] = ("on", "off")

    @property
    def title(self) -> str:
        """Name it in a row."""
        return f"{self.mix.name}, {self.engine}, load {self.load:g}, {self.n:,} x {self.seeds}"


MAIN: Final = Trial(GATEWAY, "decode-bound", 1.2, 15_000, 5)
OTHERS: Final = (
    Trial(GATEWAY, "decode-bound", 1.2, 5_000, 5, ("on",)),
    Trial(GATEWAY, "decode-bound", 1.5, 5_000, 5, ("on",)),
    Trial(CHATS, "decode-bound", 1.2, 5_000, 5, ("on",)),
    Trial(FIVE_LANGUAGES, "decode-bound", 1.2, 5_000, 5, ("on",)),
    Trial(GATEWAY, "a100-whisper-large-v3", 1.2, 5_000, 5, ("on",)),
    Trial(GATEWAY, "encoder-bound", 1.2, 5_000, 5, ("on",)),
)


def measure() -> Row:
    """Give the table, and the gaps of the main trial as numbers."""
    table: Table = {}
    result: Row = {"tables": {"what learning is worth, mean E2E": table}}
    for trial in (MAIN, *OTHERS):
        at = scene(engine(trial.engine), trial.mix, trial.load, trial.n)
        for guard in trial.guards:
            for policy in _POLICIES:
                found = compare(at, policy, guard, trial.seeds)
                table[f"{trial.title}, {policy}, guard {guard}"] = found.row()
                if trial is MAIN:
                    result.setdefault("gateway", {})[f"{policy}, guard {guard}"] = found.numbers()
    return result


class Worth(NamedTuple):
    """Figures of each seed by duration, learned and true."""

    duration: list[Figures]
    learned: list[Figures]
    true: list[Figures]

    @property
    def gap(self) -> Interval:
        """The share that knowing the length takes off the mean."""
        pairs = zip(self.duration, self.true, strict=True)
        return interval([1.0 - true.e2e_s.mean / plain.e2e_s.mean for plain, true in pairs])

    @property
    def closed(self) -> Interval:
        """The share of the gap that learning closes."""
        every = zip(self.duration, self.learned, self.true, strict=True)
        return interval(
            [
                (plain.e2e_s.mean - learned.e2e_s.mean) / (plain.e2e_s.mean - true.e2e_s.mean)
                for plain, learned, true in every
            ]
        )

    def row(self) -> Row:
        """Give cells for reading."""
        gap = self.gap
        cells: Row = {}
        for kind in _KINDS:
            figures: list[Figures] = getattr(self, kind)
            cells[f"{kind}_s"] = fmean(one.e2e_s.mean for one in figures)
        cells["gap"] = shown(_percent(gap), 1, " %")
        closing = gap.mean >= _WORTH
        cells["closed"] = shown(_percent(self.closed), 0, " %") if closing else "nothing to close"
        for kind in _KINDS:
            figures = getattr(self, kind)
            cells[f"{kind}_p90_s"] = fmean(one.e2e_s.p90 for one in figures)
        return cells

    def numbers(self) -> Row:
        """Give shares for promises."""
        gap, closed = self.gap, self.closed
        return {
            "gap_ratio": gap.mean,
            "gap_ratio_low": gap.low,
            "closed_ratio": closed.mean,
            "closed_ratio_low": closed.low,
        }


def compare(at: Scene, policy: str, guard: str, seeds: int) -> Worth:
    """Run the three kinds of estimates over the same requests of each seed."""
    worth = Worth([], [], [])
    for seed in range(seeds):
        jobs = at.jobs(seed)
        for kind in _KINDS:
            figures = at.run(jobs, policy, at.estimates(kind, GUARDS[guard], seed))
            getattr(worth, kind).append(figures)
    return worth


def _percent(one: Interval) -> Interval:
    return Interval(*(100.0 * value for value in one))
