"""Names, units and bounded labels."""

import re

from estimator.telemetry.metrics import Metrics

# Base units and counts (prometheus.io/docs/practices/naming).
_NAME = re.compile(r"kappad_[a-z0-9]+(_[a-z0-9]+)*")


def test_every_name_has_the_prefix_and_help() -> None:
    for family in Metrics().registry.collect():
        assert _NAME.fullmatch(family.name), family.name
        assert family.documentation
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb)$", family.name)


def test_two_sidecars_in_one_process_do_not_share_numbers() -> None:
    one, two = Metrics(), Metrics()
    one.learned.inc(5)
    assert b"kappad_learned_completions_total 5.0" in one.render()
    assert b"kappad_learned_completions_total 0.0" in two.render()


def test_a_gauge_is_read_when_it_is_scraped() -> None:
    metrics = Metrics()
    values = iter([1.0, 2.0])
    metrics.read_from(metrics.backlog, lambda: next(values))
    assert b"kappad_backlog_completions 1.0" in metrics.render()
    assert b"kappad_backlog_completions 2.0" in metrics.render()
