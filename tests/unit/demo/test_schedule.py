import random
from collections import Counter
from pathlib import Path

import pytest

from estimator.demo.schedule import (
    SHORT_S,
    SHORT_SHARE,
    Clip,
    mixed_lengths,
    poisson_arrivals,
    read_clips,
)

CLIPS = [
    Clip(path=Path(f"{i}.wav"), language="en", duration_s=seconds)
    for i, seconds in enumerate([1.0, 2.0, 3.0, 10.0, 20.0])
]


def test_every_clip_of_the_manifest_is_there() -> None:
    clips = read_clips()
    assert {c.language for c in clips} == {"en", "es", "de", "fr", "hi"}
    assert all(c.path.is_file() and c.duration_s > 0.0 for c in clips)


def test_a_mix_has_its_share_of_short_clips_and_all_evenly() -> None:
    chosen = mixed_lengths(CLIPS, 40, random.Random(1))
    counts = Counter(c.path.name for c in chosen)
    n_short = sum(n for name, n in counts.items() if name in {"0.wav", "1.wav", "2.wav"})
    assert n_short == SHORT_SHARE * 40
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_mix_depends_on_the_seed_only() -> None:
    first, again, other = (mixed_lengths(CLIPS, 30, random.Random(s)) for s in (7, 7, 8))
    assert first == again
    assert first != other


def test_a_mix_of_one_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="both sides"):
        mixed_lengths([c for c in CLIPS if c.duration_s <= SHORT_S], 4, random.Random(1))


def test_poisson_arrivals_have_the_rate_and_the_clips_language() -> None:
    arrivals = poisson_arrivals(CLIPS * 400, 2.0, random.Random(3))
    assert arrivals[0].due_s == 0.0
    assert arrivals == sorted(arrivals, key=lambda a: a.due_s)
    assert arrivals[-1].due_s == pytest.approx(1000.0, rel=0.1)
    assert {a.language for a in arrivals} == {"en"}
