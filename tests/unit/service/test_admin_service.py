"""A state leaves in parts, and not to everybody at once."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from estimator.runtime.errors import ExhaustedError, InvalidRequestError
from estimator.runtime.learner import Learner
from estimator.runtime.mode_switch import ModeSwitch
from estimator.runtime.state_export import ExportedState
from estimator.service import admin_service
from estimator.service.admin_service import AdminService
from protos.kappad.estimator.v1 import estimator_pb2 as pb


class _Learner:
    """Gives one state."""

    async def export_state(self, model: str) -> ExportedState:
        text = b"0123456789" if model == "m" else b"01"
        return ExportedState(schema=5, learned_count=9, key_count=3, text=text)


class _Context:
    def peer(self) -> str:
        return "unix:"


def service() -> AdminService:
    learner = cast("Learner", _Learner())  # all that is asked of it
    modes = cast("ModeSwitch", None)  # not asked
    return AdminService(modes, learner, server_version="1.2.3", now_s=lambda: 2.5)


def export(to: AdminService, model: str = "m") -> AsyncGenerator[pb.ExportStateResponse, None]:
    context = cast("admin_service._Context", _Context())  # all that is asked of it
    parts = to.ExportState(pb.ExportStateRequest(model_id=model), context)
    return cast("AsyncGenerator[pb.ExportStateResponse, None]", parts)  # what `async def` made


async def test_the_parts_are_small_and_the_first_says_what_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin_service, "_CHUNK_BYTES", 4)
    messages = [one async for one in export(service())]
    assert [one.chunk for one in messages] == [b"0123", b"4567", b"89"]
    assert [one.HasField("header") for one in messages] == [True, False, False]
    header = messages[0].header
    assert (header.schema_version, header.learned_count, header.key_count) == (5, 9, 3)
    assert (header.size_bytes, header.server_version) == (10, "1.2.3")
    assert header.create_time.ToMilliseconds() == 2_500


async def test_a_third_reader_waits_until_one_has_ended() -> None:
    admin = service()
    first, second = export(admin), export(admin)
    await anext(first)
    await anext(second)
    with pytest.raises(ExhaustedError) as caught:
        await anext(export(admin))
    assert caught.value.retry_after_s
    # One that leaves half way makes room, as one that ends does.
    await first.aclose()
    assert [one.chunk async for one in export(admin)] == [b"0123456789"]


async def test_a_name_that_no_model_has_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="model_id: has 200 characters"):
        await anext(export(service(), "x" * 200))
