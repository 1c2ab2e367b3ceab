"""The requests of one trace file, or of a synthetic mix, as the twin replays them.

Owns which rows of a trace can be replayed and how they are held: in columns, about 60 bytes a
request; jobs are made one by one, as a simulation asks for them.
"""

from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

from estimator.core.observation import Completion
from estimator.replay.job import NS_PER_S, Job
from estimator.traces import BadRow, TraceError, TraceReader, TraceRow
from sched_client.model import WHISPER_MAX_TOKENS

# The synthetic workload of arXiv 2603.11273: clips of 5, 10, … 30 s, equally often. The paper does
# not say how long their transcripts are. Assumed: LibriSpeech test-clean's tokens a second of
# audio (Σn/Σd), and its relative spread around that line, each row weighed by its seconds.
UNIFORM_5_30: Final = "uniform-5-30"
UNIFORM_AUDIO_S: Final = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
UNIFORM_KAPPA_TOKENS_PER_S: Final = 3.156
UNIFORM_SPREAD_RATIO: Final = 0.179
UNIFORM_ASSUMPTION: Final = (
    f"tokens assumed: {UNIFORM_KAPPA_TOKENS_PER_S:g} a second of audio, normal with a relative "
    f"spread of {UNIFORM_SPREAD_RATIO:g}, both of librispeech-test-clean"
)
# Equally likely lengths that stand for each clip's normal distribution.
_UNIFORM_QUANTILES: Final = 500
# A year: what a trace's clock may show. Unix times are no seconds since the trace's origin.
MAX_ARRIVAL_S: Final = 366 * 86_400.0
_NO_PATIENCE: Final = -1
_NO_AUDIO: Final = -1.0


class Rows:
    """The requests of one file.

    Parameters
    ----------
    name : str
        The file, as the user named it.
    assumption : str
        What was assumed of the requests, to be told with every result.
    always_drawn : bool
        The rows stand for a distribution: their order means nothing.

    Attributes
    ----------
    arrivals_ns : array of int
        The rows' own times; as many as rows where the file was read as ``timed``.
    n_left_out : int
        Rows that failed, and aborted ones of which the trace does not tell when the caller left.
    has_groups : bool
        Whether any row is a piece of a file.
    """

    def __init__(self, name: str, *, assumption: str = "", always_drawn: bool = False) -> None:
        self.name = name
        self.assumption = assumption
        self.always_drawn = always_drawn
        self.arrivals_ns = array("q")
        self.n_left_out = 0
        self.has_groups = False
        self._audio_s = array("d")
        self._output_tokens = array("q")
        self._prompt_tokens = array("q")
        self._patience_ns = array("q")
        # By row: what an aborted request had produced when its caller left.
        self._left_tokens: dict[int, int] = {}
        self._shared_index = array("l")
        # Any: values of a job's other fields, held once for all rows that agree in them.
        self._shared: dict[tuple[Any, ...], int] = {}
        self._shared_list: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._output_tokens)

    def append(
        self,
        completion: Completion,
        *,
        arrival_s: float | None = None,
        language_hidden: bool = False,
    ) -> None:
        """Add a request, or count it in ``n_left_out`` where it cannot be replayed."""
        left_after_s = completion.wait_s + completion.service_s
        aborted = completion.finish_reason == "aborted"
        if completion.finish_reason == "error" or (aborted and left_after_s <= 0.0):
            self.n_left_out += 1
            return
        # An engine gives a token at the least, the one that ends the transcript.
        tokens = max(completion.output_tokens, 1)
        if aborted:
            self._left_tokens[len(self)] = tokens
            # What it would have become is unknown: it decodes to its limit unless it leaves.
            tokens = max(tokens, completion.max_tokens or WHISPER_MAX_TOKENS)
        shared = (
            completion.model,
            completion.task,
            "" if language_hidden else completion.language,
            completion.timestamps,
            completion.kind,
            completion.max_tokens,
            "length" if completion.finish_reason == "length" else "stop",
            completion.request_type,
            completion.group_id,
            completion.priority,
        )
        self.has_groups = self.has_groups or bool(completion.group_id)
        index = self._shared.setdefault(shared, len(self._shared))
        if index == len(self._shared_list):
            self._shared_list.append(shared)
        self._shared_index.append(index)
        self._output_tokens.append(tokens)
        self._prompt_tokens.append(completion.prompt_tokens)
        self._audio_s.append(_NO_AUDIO if completion.audio_s is None else completion.audio_s)
        self._patience_ns.append(
            max(round(left_after_s * NS_PER_S), 1) if aborted else _NO_PATIENCE
        )
        if arrival_s is not None:
            self.arrivals_ns.append(round(arrival_s * NS_PER_S))

    def mean_tokens(self, n: int) -> float:
        """Mean output tokens of the first n rows; of aborted ones those that they had produced."""
        unknown = sum(
            self._output_tokens[row] - had for row, had in self._left_tokens.items() if row < n
        )
        return (sum(self._output_tokens[:n]) - unknown) / n

    def mean_prompt_tokens(self, n: int) -> float:
        """Mean prompt tokens of the first n rows."""
        return sum(self._prompt_tokens[:n]) / n

    def job(self, row: int, index: int, arrival_ns: int, segment: int) -> Job:
        """Give a row as the ``index``-th job of a run."""
        audio_s = self._audio_s[row]
        patience_ns = self._patience_ns[row]
        return Job._make(
            (
                index,
                arrival_ns,
                self._output_tokens[row],
                None if audio_s == _NO_AUDIO else audio_s,
                self._prompt_tokens[row],
                *self._shared_list[self._shared_index[row]],
                None if patience_ns == _NO_PATIENCE else arrival_ns + patience_ns,
                segment,
            )
        )

    def job_that_stays(self, row: int, index: int, segment: int) -> Job:
        """Give a row as a job that is there from the start and whose caller never leaves.

        An aborted one takes the tokens that it had produced, not all that it might have: they
        are the work that the engine did for it.
        """
        job = self.job(row, index, 0, segment)
        if job.abort_ns is None:
            return job
        return job._replace(output_tokens=self._left_tokens[row], abort_ns=None)


def read_rows(
    path: Path,
    *,
    language_hidden: bool = False,
    timed: bool = False,
    on_bad_row: Callable[[BadRow], None] = lambda _: None,
) -> Rows:
    """Read a trace file whole.

    Parameters
    ----------
    path : Path
        CSV or JSON Lines, plain or gzipped (`estimator.traces`).
    language_hidden : bool
        Forget the languages: what a sidecar sees that is told none.
    timed : bool
        The rows' own arrival times are needed, in order.
    on_bad_row : callable, optional
        Told of each row that is skipped; may raise to stop there.

    Returns
    -------
    Rows
        At least one.

    Raises
    ------
    TraceError
        The file cannot be read, breaks off, holds nothing to replay, or lacks arrival times in
        order where they are needed. Names the file, the line and the remedy.
    """
    rows = Rows(str(path))
    last_s = 0.0
    for row in TraceReader(path):
        one = _negative(row) if isinstance(row, TraceRow) else row
        if isinstance(one, BadRow):
            on_bad_row(one)
            continue
        if timed:
            last_s = _in_order(rows.name, one, last_s)
        rows.append(one.completion, arrival_s=one.arrival_s, language_hidden=language_hidden)
    if not len(rows):
        raise TraceError(f"{path}: no row can be replayed; name a trace of finished requests")
    return rows


def _negative(row: TraceRow) -> TraceRow | BadRow:
    if row.arrival_s is None or 0.0 <= row.arrival_s <= MAX_ARRIVAL_S:
        return row
    limits = f"0 to {MAX_ARRIVAL_S:g} seconds since the trace's start"
    reason = f"arrival_s is {row.arrival_s:g}, must be {limits}"
    return BadRow(row=row.row, line=row.line, reason=reason)


def _in_order(name: str, row: TraceRow, last_s: float) -> float:
    remedy = "or let requests arrive by another --arrivals than trace"
    if row.arrival_s is None:
        raise TraceError(f"{name}:{row.line}: arrival_s is missing; add it, {remedy}")
    if row.arrival_s < last_s:
        before = f"arrival_s is {row.arrival_s:g}, before the row above ({last_s:g})"
        raise TraceError(f"{name}:{row.line}: {before}; sort the file by arrival_s, {remedy}")
    return row.arrival_s


def uniform_rows(*, language_hidden: bool = False) -> Rows:
    """Give the paper's synthetic mix; its rows are equally likely."""
    rows = Rows(UNIFORM_5_30, assumption=UNIFORM_ASSUMPTION, always_drawn=True)
    normal = NormalDist()
    for audio_s in UNIFORM_AUDIO_S:
        for step in range(_UNIFORM_QUANTILES):
            z = normal.inv_cdf((step + 0.5) / _UNIFORM_QUANTILES)
            tokens = UNIFORM_KAPPA_TOKENS_PER_S * audio_s * (1.0 + UNIFORM_SPREAD_RATIO * z)
            rows.append(
                Completion(
                    completion_id="synthetic",
                    language="en",
                    audio_s=audio_s,
                    duration_source="hint",
                    output_tokens=min(max(round(tokens), 1), WHISPER_MAX_TOKENS),
                ),
                language_hidden=language_hidden,
            )
    return rows
