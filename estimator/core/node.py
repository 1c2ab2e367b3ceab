"""What is held for one key of κ, and what a client is told of it."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from estimator.core.censored import Anchor, Bound, Evidence, Limits, Line, young_line
from estimator.core.cohort import MAX_RECENT, Recent, newest_factor
from estimator.core.drift import LevelWatch
from estimator.core.first_finishers import Finisher, FirstFinishers
from estimator.core.intervals import RatioQuantiles
from estimator.core.learner import AffineRegressor
from sched_client.model import YOUNG_SAMPLES, KappaEntry, Key

# What counts as moved, for a client: DESIGN.md publishes κ by 1 %.
_MOVED_RATIO: Final = 0.01
# Quantiles wander by a few percent for ever; a client sorts by the estimate, not by them.
_MOVED_QUANTILE_RATIO: Final = 0.05
# A parent knows something of its own where at least half of its completions are others'.
_OTHERS_RATIO: Final = 2.0
# Keys whose last completions are remembered: 40 KB each. An engine serves a handful at a time.
_MAX_REMEMBERED: Final = 32
# Keys whose first completions are kept, as many: 20 KB each.
_MAX_BEGINNERS: Final = 32


class Node:
    """What is learned for one key."""

    __slots__ = (
        "_told", "bounds", "first", "key", "n_seen", "parent", "published", "quantiles", "recent",
        "regressor", "watch",
    )  # fmt: skip

    def __init__(self, key: Key, parent: "Node | None", regressor: AffineRegressor) -> None:
        self.key = key
        self.parent = parent
        self.regressor = regressor
        self.quantiles: RatioQuantiles = RatioQuantiles(
            parent.quantiles if parent is not None else None
        )
        self.n_seen = 0
        self.watch: LevelWatch | None = None
        self.published: KappaEntry | None = None
        # Of requests that run now, none as long as nobody has said what does; told anew after a
        # restart, and no part of the state.
        self.bounds: Sequence[Bound] | None = None
        # All completions there have been, where they may have started together.
        self.first: FirstFinishers | None = None
        # Kept for the keys taught last: of those that run at a change.
        self.recent: deque[Recent] | None = None
        # The line with all of them, and what it was made from: it takes a millisecond.
        self._told: tuple[Line, float, int, Sequence[Bound] | None, Line] | None = None

    def line(self) -> Line:
        """Give the line learned, and what the requests that run say beside it.

        Kept until the next completion or list, whatever the parents learn meanwhile.
        """
        r, bounds = self.regressor, self.bounds or ()
        learned = Line(r.kappa_, r.intercept_)
        # Where it is said what runs, and nothing does, all that started have finished.
        first = self.first if self.bounds is None else None
        if not bounds and first is None:
            return learned
        made_of = learned, r.weight_, self.n_seen
        kept = self._told
        if kept is not None and kept[:3] == made_of and kept[3] is self.bounds:
            return kept[4]
        if first is not None:
            line = first.line(learned, r.temper.scale_)
        elif self.n_seen < YOUNG_SAMPLES:
            line = self._young(learned, bounds)
        else:
            line = self._changed(learned, bounds)
        self._told = *made_of, self.bounds, line
        return line

    def _young(self, learned: Line, bounds: Sequence[Bound]) -> Line:
        r = self.regressor
        evidence = Evidence(learned, r.sums(), r.size_1_, r.temper.scale_, self._anchor())
        limits = Limits(r.clip_deviations, r.gross_deviations)
        return young_line(evidence, bounds, n_seen=self.n_seen, limits=limits)

    def _changed(self, learned: Line, bounds: Sequence[Bound]) -> Line:
        if self.recent is None:
            return learned
        factor = newest_factor(learned, self.regressor.temper.scale_, self.recent, bounds)
        return Line(factor * learned.kappa, factor * learned.intercept)

    def elder(self) -> "Node | None":
        """Give the nearest parent that knows more than this key's completions.

        A parent of a model's first language has learned from nothing but that: shrinking toward
        it would count the first finishers once more at each step of the chain.
        """
        node = self.parent
        while node is not None and node.n_seen < _OTHERS_RATIO * self.n_seen:
            node = node.parent
        return node

    def _anchor(self) -> Anchor:
        """Give what the key shrinks toward: its elder's line, or the prior."""
        elder, pull = self.elder(), self.regressor.pull_
        if elder is not None:
            r = elder.regressor
            return Anchor(elder.line(), pull, r.size_1_, r.size_2_)
        prior = self.regressor.prior
        return Anchor(Line(prior.kappa_, prior.intercept_), pull, prior.size_1_, prior.size_2_)

    def entry(self, min_samples: int) -> KappaEntry:
        """Build what a client is told of this key."""
        p50, p90, p99 = self.quantiles.ratios()
        kappa, intercept = self.line()
        return KappaEntry(
            kappa_tokens_per_s=kappa,
            intercept_tokens=intercept,
            ratio_p50=p50,
            ratio_p90=p90,
            ratio_p99=p99,
            sample_count=self.n_seen,
            source="learned" if self.n_seen >= min_samples else "prior",
        )

    def has_moved(self, min_samples: int) -> bool:
        """Say whether a client would act differently on what is known now."""
        old = self.published
        if old is None or (old.source == "prior" and self.n_seen >= min_samples):
            return True
        kappa, intercept = self.line()
        size = self.regressor.size_1_
        typical = max(abs(old.intercept_tokens + old.kappa_tokens_per_s * size), 1.0)
        slope = abs(kappa - old.kappa_tokens_per_s)
        shift = abs(intercept - old.intercept_tokens + (kappa - old.kappa_tokens_per_s) * size)
        if slope > _MOVED_RATIO * old.kappa_tokens_per_s or shift > _MOVED_RATIO * typical:
            return True
        before = (old.ratio_p50, old.ratio_p90, old.ratio_p99)
        return any(
            abs(now - then) > _MOVED_QUANTILE_RATIO * then
            for now, then in zip(self.quantiles.ratios(), before, strict=True)
        )


class Remembered:
    """The keys taught last, whose completions are remembered."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[Key, Node] = OrderedDict()

    def add(self, node: Node, started_s: float, size: float, tokens: float) -> None:
        """Remember a completion of a key, and forget those of the key taught longest ago."""
        kept, nodes = node.recent, self._nodes
        if kept is None:
            nodes[node.key] = node
            # What the oldest had is used again: where many keys take turns, each is soon gone.
            spare = nodes.popitem(last=False)[1] if len(nodes) > _MAX_REMEMBERED else node
            kept = spare.recent or deque(maxlen=MAX_RECENT)
            kept.clear()
            spare.recent = None
            node.recent = kept
        else:
            nodes.move_to_end(node.key)
        # As `Recent(…)`, in two thirds of the time.
        kept.append(tuple.__new__(Recent, (started_s, size, tokens)))


class Beginners:
    """The keys whose first completions are kept, the newest such keys."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[Key, Node] = OrderedDict()

    def add(self, node: Node, one: Finisher) -> None:
        """Take the next completion of a key; where it took no time, its start is not known."""
        first, is_timed = node.first, one.started_s < one.finished_s
        if first is None:
            if node.n_seen > 1 or not is_timed:
                return
            first = FirstFinishers()
            self._keep(node, first)
        if not (is_timed and first.add(one)):
            self.drop(node)
            return
        elder = node.elder()
        known = node.regressor.prior if elder is None else elder.regressor
        first.anchor = Line(known.kappa_, known.intercept_)

    def drop(self, node: Node) -> None:
        """Forget a key's first completions."""
        if node.first is not None:
            node.first = None
            del self._nodes[node.key]

    def _keep(self, node: Node, first: FirstFinishers) -> None:
        node.first = first
        self._nodes[node.key] = node
        if len(self._nodes) > _MAX_BEGINNERS:
            self.drop(next(iter(self._nodes.values())))

    def state(self, node: Node) -> list[Any] | None:
        """Give what is kept of a key (JSON, hence Any), its place first; None of most."""
        if node.first is None:
            return None
        return [list(self._nodes).index(node.key), *node.first.state()]

    def restore(self, states: Iterable[tuple[Node, list[Any] | None]]) -> None:
        """Take on what `state` gave of each key."""
        kept = [(state[0], node, state[1:]) for node, state in states if state is not None]
        for _, node, state in sorted(kept, key=itemgetter(0)):
            self._keep(node, FirstFinishers().restore(state))
