"""Which requests of mixed text are short and which are long, and who can know it beforehand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.twin.material import Row, Table, engine
from benchmarks.twin.text_mixes import ENGINE, LOAD
from estimator.replay.job import Job
from sched_client.text_class import text_class

_SHORT_QUANTILE: Final = 0.5
_LONG_QUANTILE: Final = 0.8
# What the long ones may pay.
_MOST_RATIO: Final = 1.3
_CAUGHT: Final = (0.5, 0.9, 0.99)
# Cells of prompt length an octave: what estimates are learned by, and eight times as fine.
_CELLS: Final = {"type, half octave of the prompt": 2, "type, sixteenth octave": 16}

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Classes(NamedTuple):
    """Short and long requests of a run."""

    short: Mask
    long: Mask


Definition = Callable[[Sequence[Job]], Classes]


def work_of(jobs: Sequence[Job]) -> Floats:
    """Give the seconds that each job turned out to be at full slots, its context counted."""
    profile = engine(ENGINE)
    return np.array(
        [profile.service_s(job.produced_tokens, job.prompt_tokens, profile.slots) for job in jobs]
    )


def _ends(values: Floats) -> Classes:
    return Classes(
        values <= np.quantile(values, _SHORT_QUANTILE),
        values >= np.quantile(values, _LONG_QUANTILE),
    )


def by_work(jobs: Sequence[Job]) -> Classes:
    """Call the lower half of the work that it turned out to be short, the top fifth long."""
    return _ends(work_of(jobs))


def by_prompt(jobs: Sequence[Job]) -> Classes:
    """Call the lower half of prompts short, the top fifth long."""
    return _ends(np.array([float(job.prompt_tokens) for job in jobs]))


def by_application(jobs: Sequence[Job]) -> Classes:
    """Call completions short, and chats (and documents) of the top fifth of work long."""
    completion = np.array([job.segment == 1 for job in jobs])
    return Classes(completion, ~completion & by_work(jobs).long)


def by_expectation(jobs: Sequence[Job]) -> Classes:
    """Call the lower half short, and the top fifth long, of what such requests are in the mean.

    Such requests: those of the run with the same application and half octave of the prompt, whole
    cells, so that a fifth may be a quarter. It is what somebody knows on arrival who has seen them
    all. They are the very cells that kappad learns by: it tells whether what can be told apart by
    them goes first, not whether what turns out to be short does.
    """
    works = work_of(jobs)
    _, cells = np.unique(
        [text_class(str(job.segment), job.prompt_tokens) for job in jobs], return_inverse=True
    )
    return _ends((np.bincount(cells, works) / np.bincount(cells))[cells])


def by_file(jobs: Sequence[Job]) -> Classes:
    """Call the first file's requests short, the others long."""
    first = np.array([job.segment == 0 for job in jobs])
    return Classes(first, ~first)


def told_apart(jobs: Sequence[Job], definitions: Mapping[str, Definition]) -> Row:
    """Say how much work has to go first for the short ones to, if lengths cannot be foreseen.

    Parameters
    ----------
    jobs : sequence of Job
        Many, so that cells are full.
    definitions : mapping of str to callable
        Whom to call short.

    Returns
    -------
    dict
        Tables, and ``needed_share``: by definition, the share of all work that goes first where
        99 % of the short ones do.

    Notes
    -----
    Who knows a request's application and prompt and no more has to treat all alike that are alike
    in them. The best he can do is to let cells through in order of the short ones that each holds
    for its work (the lemma of Neyman and Pearson, 1933); what is found is a bound for every
    predictor of these two, with the trace's own frequencies, as if all were known beforehand.

    What it costs: if a share s of the work always goes first on an engine at load ρ > 1, the
    others get 1 - sρ of it. Of those, whoever comes at t finds (ρ - 1)·t of work ahead; the last
    to be served while others still come, waits longest, 1 / (ρ·(1 - s)) times as long as the last
    of all under first come, first served. At most 1.3 times at load 1.1 means s ≤ 0.30.
    """
    works = work_of(jobs)
    most = 1.0 - 1.0 / (_MOST_RATIO * LOAD)
    table: Table = {}
    needed: dict[str, float] = {}
    for name, definition in definitions.items():
        short = definition(jobs).short
        row: Row = {"own share of work": _percent(works[short].sum() / works.sum())}
        for cell, an_octave in _CELLS.items():
            shares = _let_through(jobs, works, short, an_octave)
            row |= {
                f"{cell}: {100 * caught:g} % of them": _percent(share)
                for caught, share in zip(_CAUGHT, shares, strict=True)
            }
            needed.setdefault(name, shares[-1])
        table[f"short {name}"] = row
    title = (
        "work that has to go first for a share of the short ones to, at least, knowing type and "
        f"prompt; the long ones' longest wait is × {_MOST_RATIO:g} at {_percent(most)}"
    )
    return {"tables": {title: table}, "needed_share": needed, "affordable_share": most}


def _let_through(
    jobs: Sequence[Job], works: Floats, short: Mask, an_octave: int
) -> tuple[float, ...]:
    prompts = np.array([max(job.prompt_tokens, 1) for job in jobs])
    segments = np.array([job.segment for job in jobs])
    octaves = np.floor(an_octave * np.log2(prompts)).astype(int)
    _, cells = np.unique(np.stack([segments, octaves]), axis=1, return_inverse=True)
    cells = cells.reshape(-1)
    work, caught = np.bincount(cells, works), np.bincount(cells, short.astype(float))
    best = np.argsort(-caught / work, kind="stable")
    # Of the last cell as much as is needed: a bound that no rounding up can be blamed for.
    shares = np.interp(
        _CAUGHT,
        np.concatenate([[0.0], np.cumsum(caught[best]) / short.sum()]),
        np.concatenate([[0.0], np.cumsum(work[best]) / works.sum()]),
    )
    return tuple(map(float, shares))


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
