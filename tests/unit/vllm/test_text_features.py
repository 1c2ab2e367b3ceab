"""Which class a text request is ordered by (tests/vllm_inprocess reads real requests)."""

from types import SimpleNamespace

import pytest

from sched_client.estimates import Estimates
from sched_client.model import KappaEntry, Key, Settings, Snapshot, evaluate
from sched_client.text_class import text_class
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.record import Record
from tests.support.vllm_fakes import Request, text_snapshot


def typed(request_type: str, prompt: int = 1_000) -> Request:
    arguments = SimpleNamespace(extra_args={"request_type": request_type})
    return Request("a", num_prompt_tokens=prompt, sampling_params=arguments)


@pytest.mark.parametrize(("trusted", "ordered_by"), [(True, "code/20"), (False, "/20")])
def test_a_request_type_chooses_the_estimate_only_if_hints_are_trusted(
    trusted: bool, ordered_by: str
) -> None:
    reading = FeatureReader(trust_hints=trusted).read(typed("code"))
    assert reading.ordering.key == Key("default", "text", ordered_by)
    # What is reported names the type beside the features, and no language.
    assert (reading.features.language, reading.hints.request_type) == ("", "code")


def test_a_waiting_text_request_is_estimated_anew_when_its_class_moved() -> None:
    key = Key("default", "text", text_class("", 1_000))

    def snapshot(version: int, tokens: float) -> Snapshot:
        entry = KappaEntry(kappa_tokens_per_s=0.0, intercept_tokens=tokens, source="learned")
        base = text_snapshot(Settings())
        return Snapshot(
            version=version, instance_id="i", created_s=0.0, kappas={**base.kappas, key: entry}
        )

    request = Request("a", num_prompt_tokens=1_000)
    record = Record(request, 0.0, 1)
    record.take(FeatureReader().read(request))
    estimates = Estimates(snapshot(1, 50.0))
    estimates.first(record)
    assert record.tokens == 50.0
    moved: list[Record] = []
    estimates.adopt(snapshot(2, 90.0))
    estimates.revise_some(lambda: 0.0, lambda: [record], moved.append)
    assert moved == [record]
    assert evaluate(estimates.snapshot, record.ordering).tokens == 90.0
