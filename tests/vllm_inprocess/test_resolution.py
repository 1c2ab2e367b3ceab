"""An incompatible vLLM gets its own scheduler back, with one warning; the doctor says why."""

import enum
import importlib
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import RequestQueue, SchedulingPolicy

import sched_client.vllm
from sched_client.vllm import doctor, shim
from sched_client.vllm.scheduler import victims_of
from tests.vllm_inprocess.engine import Driver, build_scheduler, make_request


def _remove(monkeypatch: pytest.MonkeyPatch, need: shim.Need) -> None:
    """Make vLLM lack one need, wherever it is defined."""
    owner, of_instances, attribute = need.path.partition("().")
    found: Any = importlib.import_module(need.module)
    *parents, last = owner.split(".")
    for parent in parents:
        found = getattr(found, parent)
    if of_instances:
        cls = getattr(found, last)
        source = shim._source(cls).replace(f"self.{attribute}", "self.renamed")
        original = shim._source
        monkeypatch.setattr(shim, "_source", lambda of: source if of is cls else original(of))
        return
    if last in getattr(found, "__annotations__", {}):
        monkeypatch.delitem(found.__annotations__, last)
    holders = getattr(found, "__mro__", (found,))
    for holder in holders:
        if last in vars(holder):
            if isinstance(holder, enum.EnumType):
                monkeypatch.delitem(holder._member_map_, last)
                monkeypatch.delattr(holder, last)
            else:
                monkeypatch.delattr(holder, last)


@pytest.mark.parametrize("need", shim.NEEDS, ids=lambda need: need.path)
def test_each_missing_attribute_gives_the_stock_class_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, need: shim.Need
) -> None:
    _remove(monkeypatch, need)
    with caplog.at_level(logging.WARNING, logger="kappad"):
        found = sched_client.vllm.KappadScheduler
    assert found.__module__.startswith("vllm.v1.core.sched.")
    warnings = [record for record in caplog.records if record.name == "kappad"]
    assert len(warnings) == 1
    assert need.path.rpartition(".")[2].strip("()") in warnings[0].getMessage()
    assert "sched_client.vllm.doctor" in warnings[0].getMessage()
    assert doctor.main([]) == 1


@pytest.mark.parametrize("need", shim.PREEMPTION_NEEDS, ids=lambda need: need.path)
def test_what_only_preemption_needs_leaves_the_rest_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    need: shim.Need,
) -> None:
    _remove(monkeypatch, need)
    with caplog.at_level(logging.WARNING, logger="kappad"):
        assert victims_of(SimpleNamespace(policy=SchedulingPolicy.FCFS)) is None
    (warning,) = [record for record in caplog.records if record.name == "kappad"]
    assert need.path in warning.getMessage()
    missing = [f.name for f in shim.examine() if f.problem]
    assert all(need.path in name for name in missing)  # what else kappad needs is there
    assert doctor.main(["--json"]) == bool(missing)
    told = json.loads(capsys.readouterr().out)
    assert [f["name"] for f in told["preemption"] if not f["ok"]] == [f"{need.module}.{need.path}"]
    doctor.main([])
    assert f"NO   missing: {need.module}.{need.path}" in capsys.readouterr().out


def test_where_vllm_schedules_by_priority_it_preempts_by_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler = build_scheduler(vllm_policy="priority")
    assert victims_of(scheduler) is None
    assert not [record for record in caplog.records if record.name == "kappad"]


def test_the_stock_class_that_is_given_is_the_asynchronous_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shim, "NEEDS", (shim.Need("vllm.no_such_module", "X", "a test"),))
    assert sched_client.vllm.KappadScheduler is AsyncScheduler


def test_a_vllm_that_calls_an_unknown_method_of_the_queue_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = shim._source
    monkeypatch.setattr(shim, "_source", lambda of: original(of) + "self.waiting.reshuffle()\n")
    assert sched_client.vllm.KappadScheduler is AsyncScheduler
    assert doctor.main([]) == 1
    assert "reshuffle" in capsys.readouterr().out


def test_a_new_abstract_method_of_the_queue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    more = frozenset({*RequestQueue.__abstractmethods__, "split_requests"})
    monkeypatch.setattr(RequestQueue, "__abstractmethods__", more)
    assert sched_client.vllm.KappadScheduler is AsyncScheduler


def test_without_any_scheduler_class_the_error_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cls in (("async_scheduler", "AsyncScheduler"), ("scheduler", "Scheduler")):
        module = importlib.import_module(f"vllm.v1.core.sched.{name}")
        monkeypatch.delattr(module, cls)
    with pytest.raises(ImportError, match="start it without --scheduler-cls"):
        _ = sched_client.vllm.KappadScheduler


def test_this_vllm_fits(capsys: pytest.CaptureFixture[str]) -> None:
    cls = sched_client.vllm.KappadScheduler
    assert cls.__name__ == "KappadScheduler"
    assert issubclass(cls, AsyncScheduler)
    assert doctor.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fits"] is True
    assert told["vllm_version"]
    assert {check["ok"] for check in told["checks"]} == {True}
    assert len(told["checks"]) == len(shim.NEEDS) + 1
    assert {check["ok"] for check in told["preemption"]} == {True}
    assert len(told["preemption"]) == len(shim.PREEMPTION_NEEDS)


def test_vllm_resolves_the_name_as_it_does_for_scheduler_cls() -> None:
    from vllm.utils.import_utils import resolve_obj_by_qualname  # noqa: PLC0415 - moves between versions

    found = resolve_obj_by_qualname("sched_client.vllm.KappadScheduler")
    assert found is sched_client.vllm.KappadScheduler


def test_the_stock_class_given_in_our_place_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "NEEDS", (shim.Need("vllm.no_such_module", "X", "a test"),))
    driver = Driver(build_scheduler(sched_client.vllm.KappadScheduler, max_num_seqs=1))
    for index in range(5):
        driver.scheduler.add_request(make_request(f"r{index}", 9.0 - index))
    driver.run()
    assert driver.admitted == [f"r{i}" for i in range(5)]
