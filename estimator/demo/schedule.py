"""The demo's clips, and schedules of arrivals made of them."""

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from estimator.demo.load import Arrival

CLIPS_DIR: Final = Path(__file__).resolve().parent / "clips"
# Up to here a clip is an utterance; the encoder works on a padded 30 s, so what tells short from
# long is the number of tokens.
SHORT_S: Final = 5.0
# With exactly half, the median would sit on the border between short and long and jump with the
# luck of a draw.
SHORT_SHARE: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One audio file.

    Attributes
    ----------
    path : pathlib.Path
        Under ``estimator/demo/clips``.
    language : str
        Whisper's code.
    duration_s : float
        Seconds of audio.
    """

    path: Path
    language: str
    duration_s: float


def read_clips(folder: Path = CLIPS_DIR) -> tuple[Clip, ...]:
    """Read ``manifest.csv`` (columns file, language, duration_s, source, licence)."""
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Clip(
                path=folder / row["file"],
                language=row["language"],
                duration_s=float(row["duration_s"]),
            )
            for row in csv.DictReader(file)
        )


def mixed_lengths(clips: Sequence[Clip], n: int, rng: random.Random) -> list[Clip]:
    """Draw ``n`` clips, `SHORT_SHARE` of them short, each kind evenly, in random order.

    Parameters
    ----------
    clips : sequence of Clip
        With at least one clip of each kind.
    n : int
        How many to draw.
    rng : random.Random
        Decides which and in what order.

    Returns
    -------
    list of Clip
        The counts of two clips of the same kind differ by at most one, so that two draws are
        about the same work.
    """
    short = [c for c in clips if c.duration_s <= SHORT_S]
    long = [c for c in clips if c.duration_s > SHORT_S]
    if not short or not long:
        raise ValueError("a mix of lengths needs clips on both sides of the limit; add some")
    n_short = round(SHORT_SHARE * n)
    chosen: list[Clip] = []
    for kind, count in ((short, n_short), (long, n - n_short)):
        whole, rest = divmod(count, len(kind))
        chosen += list(kind) * whole + rng.sample(kind, rest)
    rng.shuffle(chosen)
    return chosen


def poisson_arrivals(clips: Sequence[Clip], rate_rps: float, rng: random.Random) -> list[Arrival]:
    """Schedule clips as a Poisson process.

    Parameters
    ----------
    clips : sequence of Clip
        In the order of their arrival.
    rate_rps : float
        Mean arrivals per second, > 0.
    rng : random.Random
        Decides the gaps.
    """
    due_s = 0.0
    arrivals = []
    for clip in clips:
        arrivals.append(arrival_of(clip, due_s=due_s))
        due_s += rng.expovariate(rate_rps)
    return arrivals


def arrival_of(clip: Clip, *, due_s: float = 0.0, request_id: str = "") -> Arrival:
    """Give the request for a clip in its own language."""
    return Arrival(
        due_s=due_s,
        clip=clip.path,
        audio_s=clip.duration_s,
        fields=(("language", clip.language),),
        request_id=request_id,
    )
