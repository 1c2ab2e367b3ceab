"""The table of κ: one regression and one set of quantiles for each key, with parents.

Owns which keys exist, which completions teach them, and what of them has moved.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from estimator.core.censored import Bound, Limits, impute
from estimator.core.cohort import MAX_KEYS
from estimator.core.config import CoreConfig
from estimator.core.drift import LevelWatch, Sample, kappa_watch
from estimator.core.first_finishers import Finisher
from estimator.core.intervals import RunningCoverage
from estimator.core.learner import AffineRegressor, Anchor
from estimator.core.lesson import size_of
from estimator.core.node import Beginners, Node, Remembered
from estimator.core.observation import Completion
from sched_client.model import GLOBAL_KEY, TEXT_TASK, YOUNG_SAMPLES, KappaEntry, Key

# A key tells its parents of its first completions at once, and of the others in batches of so
# many. They serve keys that have few completions of their own, and four of them would cost more
# than the key itself.
_TELL_AT_ONCE: Final = 4
_TELL_BY: Final = 16
# A key is watched from its so many-th completion: a language seen once needs no detector.
_WATCH_AFTER: Final = 10
# Where a duration is what a caller says, and not what the engine measured.
_HINT: Final = "hint"
# Standard errors of the reference that a residual may be off by without saying anything. Where
# clips above the median length follow those below it, or the reverse, 0, 1 and 2 gave a false
# event in 22, 11 and 3 of 32 runs.
_SLACK_DEVIATIONS: Final = 2.0
# Keeps a spread of sizes positive where they are all the same.
_TINY: Final = 1e-9


class KappaTable:
    """κ of every key.

    Parameters
    ----------
    config : CoreConfig
        Priors, forgetting, shrinkage and bounds.

    Notes
    -----
    A completion teaches its key, and a key tells its parents, so that others can shrink toward
    them. Text requests are counted in prompt tokens, so they teach the keys of their own task and
    stop there.

    Least recently used: a completion touches its key and then its parents, so that the oldest key
    never has children. Keys below ``min_samples`` wait in a list of their own, which is emptied
    first: invented languages push out one another, never a key that has been learned.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self._new: OrderedDict[Key, Node] = OrderedDict()
        self._known: OrderedDict[Key, Node] = OrderedDict()
        self._audio = Anchor(
            kappa=config.prior_kappa_tokens_per_s,
            intercept=config.prior_intercept_tokens,
            mean_size=config.prior_mean_audio_s,
            sd_size=config.prior_sd_audio_s,
            relative_error=config.prior_relative_error,
        )
        self._text = Anchor(
            kappa=0.0, intercept=config.prior_text_tokens,
            mean_size=config.prior_text_prompt_tokens, sd_size=config.prior_text_prompt_tokens,
            relative_error=config.prior_relative_error,
        )  # fmt: skip
        # The global key answers from the start and is never evicted.
        self._root = self._make(GLOBAL_KEY, None, self._audio)
        # Answers for text of which nothing is known; no key and never taught.
        self._unknown_text = self._make(Key(task=TEXT_TASK), None, self._text)
        self._dirty: dict[Key, Node] = {GLOBAL_KEY: self._root}
        self._removed: set[Key] = set()
        self._evicted_while_open: list[Node] = []
        self._bounded: list[Node] = []
        self._remembered = Remembered()
        self._beginners = Beginners()
        # Of what the key's own p90 was, when the completion was learned.
        self.p90_coverage = RunningCoverage()

    def __len__(self) -> int:
        return len(self._new) + len(self._known) + 1

    def __iter__(self) -> Iterator[Node]:
        yield self._root
        yield from self._known.values()
        yield from self._new.values()

    def learn(self, completion: Completion) -> tuple[Node, Sample] | None:
        """Learn one completion.

        Parameters
        ----------
        completion : Completion
            Validated.

        Returns
        -------
        tuple of (Node, Sample) or None
            What its key's watch is to be told; None if the key has none, or it teaches nothing.

        Notes
        -----
        A ``length`` finish and an aborted request are lower bounds of what was wanted: they are
        learned as `estimator.core.censored.impute` has them, and are no completions of the key.
        """
        size = size_of(completion)
        if size is None:
            return None
        y = float(completion.output_tokens)
        if completion.finish_reason != "stop":
            if y > 0.0:
                self._learn_bound(completion.key, size, y)
            return None
        node = self._find(completion.key)
        regressor = node.regressor
        kappa, intercept = regressor.kappa_, regressor.intercept_
        expected = intercept + kappa * size
        if expected < 1.0:  # noqa: PLR1730 - max() takes as long as all of it
            expected = 1.0
        size_1, size_2 = regressor.size_1_, regressor.size_2_
        known = (kappa, intercept, size_1, size_2, regressor.weight_ + regressor.pull_)
        self._touch(node, taught=1)
        deviation = self._teach(
            node, size, y, expected, trusted=completion.duration_source != _HINT
        )
        service_s = completion.service_s
        started_s = completion.finished_s - service_s
        if service_s > 0.0:
            self._remembered.add(node, started_s, size, y)
        if node.first is not None or node.n_seen == 1:
            self._beginners.add(node, Finisher(started_s, completion.finished_s, size, y))
        watch = node.watch
        if watch is None:
            if node.n_seen < _WATCH_AFTER:
                return None
            node.watch = watch = self.new_watch()
        reference, slack = expected, 0.0
        if watch.reference_:
            reference, error = _recall(watch.reference_, size)
            slack = _SLACK_DEVIATIONS * error * regressor.temper.scale_
        # As `Sample(…)`, in two thirds of the time: its own `__new__` is interpreted.
        return node, tuple.__new__(Sample, (y, expected, reference, deviation, slack, size, known))

    def _learn_bound(self, key: Key, size: float, tokens: float) -> None:
        """Put a bound beside the completions of the keys that there are; it makes none."""
        chain = [node for member in key.chain() if (node := self._held(member)) is not None]
        if chain:
            self._touch(chain[0], taught=0)
        limits = Limits(self.config.clip_deviations, self.config.gross_deviations)
        for node in reversed(chain):
            regressor = node.regressor
            expected = max(regressor.intercept_ + regressor.kappa_ * size, 1.0)
            imputed = impute(expected, regressor.temper.scale_, tokens, limits)
            if imputed is not None:
                regressor.teach_bound(size, imputed.tokens, imputed.share)
                self._dirty[node.key] = node

    def set_bounds(self, bounds: Mapping[Key, Sequence[Bound]]) -> None:
        """Replace what runs now, by key, parents included; keys that are not held have no say."""
        for node in self._bounded:
            node.bounds = ()
            if self._held(node.key) is node:
                self._dirty[node.key] = node
        self._bounded = []
        n_old = 0
        for key, listed in sorted(bounds.items(), key=lambda item: -len(item[1])):
            held = self._held(key)
            if held is None:
                continue
            if held.n_seen >= YOUNG_SAMPLES:
                # Keys themselves, not parents: a change is a language's.
                if held.recent is None or n_old == MAX_KEYS:
                    continue
                n_old += 1
            held.bounds = listed
            self._bounded.append(held)
            self._dirty[key] = held

    def _held(self, key: Key) -> Node | None:
        return self._root if key == GLOBAL_KEY else self._known.get(key) or self._new.get(key)

    def _teach(
        self, leaf: Node, size: float, y: float, expected: float, *, trusted: bool
    ) -> float:
        self._dirty[leaf.key] = leaf
        actual = math.log(y) if y > 1.0 else 0.0
        self.p90_coverage.learn_one(leaf.quantiles.learn_one(actual - math.log(expected)))
        deviation = leaf.regressor.teach(size, y, trusted=trusted)
        if leaf.n_seen <= _TELL_AT_ONCE or leaf.n_seen % _TELL_BY == 0:
            self._tell(leaf, size, y, actual)
        return deviation

    def _tell(self, leaf: Node, size: float, y: float, actual: float) -> None:
        """Tell the parents, the most general first, so that each shrinks toward its own."""
        sums = leaf.regressor.take_untold()
        chain = []
        node = leaf.parent
        while node is not None:
            chain.append(node)
            node = node.parent
        for node in reversed(chain):
            regressor = node.regressor
            expected = max(regressor.intercept_ + regressor.kappa_ * size, 1.0)
            node.quantiles.learn_one(actual - math.log(expected))
            temper = regressor.temper
            temper.spread(abs(y - expected) / (temper.scale_ * math.sqrt(expected)))
            regressor.add_sums(sums)
            regressor.solve()
            self._dirty[node.key] = node

    def _touch(self, leaf: Node, *, taught: int) -> None:
        """Mark a chain as used, the leaf first, count it, and evict what is used least."""
        least, root, new, known = self.config.min_samples, self._root, self._new, self._known
        node: Node | None = leaf
        while node is not None:
            node.n_seen = n_seen = node.n_seen + taught
            if node is root:
                break
            if n_seen < least:
                new.move_to_end(node.key)
            elif n_seen == least and taught:
                known[node.key] = new.pop(node.key)
            else:
                known.move_to_end(node.key)
            node = node.parent
        # The root is one more.
        while len(new) + len(known) >= self.config.max_keys:
            self._evict(leaf)

    def _evict(self, leaf: Node | None) -> None:
        """Drop the least recently used key, those on trial first, but none of the leaf's chain.

        Neither has children: on trial, children are older than their parents; and where only the
        leaf's own chain is on trial, so they are among the known.
        """
        oldest = next(iter(self._new.values()), None)
        on_trial = oldest is not None
        node: Node | None = leaf
        while node is not None and on_trial:
            on_trial = node is not oldest
            node = node.parent
        key, node = (self._new if on_trial else self._known).popitem(last=False)
        self._dirty.pop(key, None)
        self._beginners.drop(node)
        if node.published is not None:
            self._removed.add(key)
        if node.watch is not None and node.watch.is_open:
            self._evicted_while_open.append(node)

    def _find(self, key: Key) -> Node:
        node = self._known.get(key) or self._new.get(key)
        if node is not None:
            return node
        parent: Node | None = None
        anchor = self._text if key.task == TEXT_TASK else self._audio
        for member in reversed(tuple(key.chain())):
            if member == GLOBAL_KEY:
                node = self._root
            else:
                node = self._known.get(member) or self._new.get(member)
            if node is None:
                node = self._make(member, parent, anchor)
                self._new[member] = node
            parent = node
        if parent is None:
            raise RuntimeError(f"the chain of {key} is empty")
        return parent

    def _make(self, key: Key, parent: Node | None, anchor: Anchor) -> Node:
        config = self.config
        regressor = AffineRegressor(
            parent=parent.regressor if parent is not None else anchor,
            forgetting=config.forgetting,
            shrinkage=config.shrinkage,
            level_shrinkage=config.level_shrinkage,
            change_hazard=config.change_hazard,
            clip_deviations=config.clip_deviations,
            gross_deviations=config.gross_deviations,
        )
        return Node(key, parent, regressor)

    def get(self, key: Key) -> Node:
        """Give the node whose answer a client would use: the key's, or its nearest parent's."""
        for member in key.chain():
            node = self._known.get(member)
            if node is not None:
                return node
        return self._unknown_text if key.task == TEXT_TASK else self._root

    def entries(self, model: str = "") -> dict[Key, KappaEntry]:
        """Give every key (of one model) that answers for itself, and the global key."""
        least = self.config.min_samples
        table = {GLOBAL_KEY: self._root.entry(least)}
        for key, node in self._known.items():
            if not model or key.model == model:
                table[key] = node.entry(least)
        return table

    def sample_counts(self) -> dict[Key, int]:
        """Give how many completions are behind each key that `entries` gives."""
        return {node.key: node.n_seen for node in (self._root, *self._known.values())}

    def take_evicted_while_open(self) -> list[Node]:
        """Give the nodes that left with an open drift event since the last call."""
        gone = self._evicted_while_open
        if gone:  # asked after each completion
            self._evicted_while_open = []
        return gone

    def take_changes(self) -> tuple[dict[Key, KappaEntry], frozenset[Key]]:
        """Give what has moved and what is gone since the last call; O(keys taught since)."""
        least = self.config.min_samples
        changed: dict[Key, KappaEntry] = {}
        for key, node in self._dirty.items():
            if (node is self._root or node.n_seen >= least) and node.has_moved(least):
                changed[key] = node.published = node.entry(least)
        self._dirty.clear()
        # A key that came back is in ``changed`` if it answers, and is still gone if it does not.
        removed = frozenset(self._removed - changed.keys())
        self._removed.clear()
        return changed, removed

    def states(self, model: str = "") -> Iterator[list[Any]]:
        """Give every key's state (or a model's), least recently used first, the global key last.

        JSON-serialisable (hence Any): key's parts, count, regression, quantiles, watch or None,
        and first finishers or None.
        """
        return (
            [
                *node.key, node.n_seen, node.regressor.state(), node.quantiles.state(),
                None if node.watch is None else node.watch.state(), self._beginners.state(node),
            ]
            for node in (*self._new.values(), *self._known.values(), self._root)
            if not model or node.key.model in ("", model)
        )  # fmt: skip

    def restore(self, rows: list[list[Any]]) -> None:
        """Take on what `states` gave (JSON, hence Any).

        Raises
        ------
        ValueError
            If a row does not hold what a key's state has, or there are too few or too many.
        """
        for row in sorted(rows, key=_depth):
            node = self._find(Key(*row[:4]))
            n_seen, regressor, quantiles, watch, _ = row[4:]
            node.n_seen = int(n_seen)
            node.regressor.restore(regressor)
            node.quantiles.restore(quantiles)
            if watch is not None:
                node.watch = self.new_watch().restore(watch)
            self._dirty[node.key] = node
        nodes = {node.key: node for node in self}
        if len(nodes) != len(rows):
            raise ValueError("a key is there twice, or one of its parents is missing")
        self._new.clear()
        self._known.clear()
        for row in rows:
            node = nodes[Key(*row[:4])]
            if node is not self._root:
                established = node.n_seen >= self.config.min_samples
                (self._known if established else self._new)[node.key] = node
        self._beginners.restore((nodes[Key(*row[:4])], row[-1]) for row in rows)
        while len(self) > self.config.max_keys:
            self._evict(None)

    def new_watch(self) -> LevelWatch:
        """Make a watch for a key's level."""
        return kappa_watch(self.config)


def _depth(row: list[Any]) -> int:
    # Any: a row of JSON, see `KappaTable.states`.
    return sum(part not in ("", None) for part in row[:4])


def _recall(known: Sequence[float], size: float) -> tuple[float, float]:
    """Give what a line expected of a size, and that mean's standard error, in units of a scale.

    The variance of weighted least squares, σ²·m/w·(1 + (s - s̄)²/var(s)), where weights make each
    completion's variance that of the mean one, m tokens.
    """
    slope, intercept, size_1, size_2, weight = known
    spread = max(size_2 - size_1 * size_1, _TINY)
    leverage = (1.0 + (size - size_1) ** 2 / spread) / weight
    typical = max(intercept + slope * size_1, 1.0)
    return max(intercept + slope * size, 1.0), math.sqrt(typical * leverage)
