"""What requests are refused for, with the path of the field."""

import math
from typing import Literal

import pytest

from estimator.runtime.errors import InvalidRequestError
from estimator.service.limits import (
    check_batch,
    check_client,
    check_features,
    check_mode_request,
    check_watch,
    page_size_of,
)
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Features


@pytest.mark.parametrize(
    ("features", "field"),
    [
        (Features(audio_s=math.nan), "inputs[1].audio_seconds"),
        (Features(audio_s=math.inf), "inputs[1].audio_seconds"),
        (Features(audio_s=-1.0), "inputs[1].audio_seconds"),
        (Features(audio_s=0.0), "inputs[1].audio_seconds"),
        (Features(audio_s=86_401.0), "inputs[1].audio_seconds"),
        (Features(prompt_tokens=-1), "inputs[1].prompt_token_count"),
        (Features(max_tokens=0), "inputs[1].max_token_count"),
        (Features(max_tokens=-5), "inputs[1].max_token_count"),
        (Features(model="m" * 129), "inputs[1].model_id"),
        (Features(task="t" * 129), "inputs[1].task"),
        (Features(language="l" * 129), "inputs[1].language"),
    ],
)
def test_a_bad_input_is_named_by_its_field(features: Features, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_features([Features(audio_s=1.0), features])
    assert [name for name, _ in caught.value.violations] == [field]


def test_unknown_parts_are_no_mistake() -> None:
    check_features([Features(), Features(audio_s=86_400.0, max_tokens=1, model="m" * 128)])


def test_many_bad_inputs_do_not_make_a_long_answer() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_features([Features(audio_s=-1.0)] * 1000)
    assert len(caught.value.violations) == 10


def test_a_batch_beyond_its_limits_is_refused() -> None:
    check_batch("inputs", 1024, least=1, most=1024)
    for count in (0, 1025):
        with pytest.raises(InvalidRequestError, match="1 to 1024") as caught:
            check_batch("inputs", count, least=1, most=1024)
        assert caught.value.reason == "BATCH_SIZE"


@pytest.mark.parametrize(
    ("name", "limit"), [("client_id", 128), ("model_id", 128), ("reject_reason", 256)]
)
def test_a_client_may_not_say_too_much(name: str, limit: int) -> None:
    status = pb.ClientStatus(client_id="c")
    setattr(status, name, "x" * limit)
    check_client(status)
    setattr(status, name, "x" * (limit + 1))
    with pytest.raises(InvalidRequestError, match=f"client.{name}"):
        check_client(status)


@pytest.mark.parametrize(("name", "most"), [("kv_token_count", 10**12), ("slot_count", 10**6)])
def test_what_an_engine_holds_is_at_least_one_and_below_what_none_has(
    name: Literal["kv_token_count", "slot_count"], most: int
) -> None:
    status = pb.ClientStatus(client_id="c")
    for value in (1, most):
        setattr(status, name, value)
        check_client(status)
    for value in (0, -1, most + 1):
        setattr(status, name, value)
        with pytest.raises(
            InvalidRequestError, match=rf"client\.{name}: is {value}, the limits are"
        ):
            check_client(status)


def test_a_client_must_say_who_it_is() -> None:
    with pytest.raises(InvalidRequestError, match=r"client\.client_id"):
        check_client(pb.ClientStatus())
    with pytest.raises(InvalidRequestError, match="client_id"):
        check_watch(pb.WatchParametersRequest())


def test_a_watch_may_not_name_too_many_or_too_long_models() -> None:
    check_watch(pb.WatchParametersRequest(client_id="c", model_ids=["m"] * 64))
    with pytest.raises(InvalidRequestError, match="65 items"):
        check_watch(pb.WatchParametersRequest(client_id="c", model_ids=["m"] * 65))
    with pytest.raises(InvalidRequestError, match=r"model_ids\[1\]"):
        check_watch(pb.WatchParametersRequest(client_id="c", model_ids=["m", "x" * 129]))


def test_a_reason_that_is_too_long_to_record_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="reason"):
        check_mode_request(pb.SetModeRequest(reason="x" * 257))


def test_page_sizes() -> None:
    assert [page_size_of(n) for n in (0, 1, 1000, 5000)] == [100, 1, 1000, 1000]
    with pytest.raises(InvalidRequestError, match="-1"):
        page_size_of(-1)
