"""Answers that make no sense are told apart from those that do."""

import pytest

from estimator.client import answers
from estimator.client.answers import explanation, model_queues, state_result
from estimator.convert import ConversionError
from protos.kappad.estimator.v1 import estimator_pb2 as pb


def parts(
    *chunks: bytes, size: int | None = None, learned: int = 7
) -> list[pb.ExportStateResponse]:
    """Give the parts of a state, its header with the first."""
    total = sum(map(len, chunks)) if size is None else size
    header = pb.StateHeader(
        schema_version=3, learned_count=learned, key_count=2, size_bytes=total,
        server_version="1.2.3",
    )  # fmt: skip
    header.create_time.FromMilliseconds(1_500)
    messages = [pb.ExportStateResponse(chunk=chunk) for chunk in chunks]
    if messages:
        messages[0].header.CopyFrom(header)
    return messages


def test_the_parts_of_a_state_are_put_together() -> None:
    result = state_result(parts(b'{"a":', b"1}"))
    assert result.text == '{"a":1}'
    assert (result.schema, result.learned, result.keys) == (3, 7, 2)
    assert (result.server_version, result.created_s) == ("1.2.3", 1.5)


@pytest.mark.parametrize(
    "messages",
    [[], parts(b"ab", size=3), parts(b"ab", b"cd", size=3), parts(b"")],
    ids=["nothing", "short", "long", "empty"],
)
def test_a_state_that_breaks_off_or_goes_on_is_refused(
    messages: list[pb.ExportStateResponse],
) -> None:
    with pytest.raises(ConversionError, match="bytes of a state that has"):
        state_result(messages)


def test_bytes_that_are_no_text_are_refused_as_any_nonsense() -> None:
    with pytest.raises(ConversionError, match="no ASCII"):
        state_result(parts(b'{"a":"', b'\xff"}'))


def test_no_more_is_read_than_a_seed_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_SEED_BYTES", 10)
    endless = iter(parts(*[b"x" * 4] * 1000))
    with pytest.raises(ConversionError):
        state_result(endless)
    assert len(list(endless)) == 997


def test_a_lesson_of_a_newer_sidecar_is_refused_in_words() -> None:
    message = pb.Explanation(
        completion=pb.Completion(completion_id="a-1", finish_reason=pb.FINISH_REASON_STOP)
    )
    with pytest.raises(ConversionError, match="upgrade it"):
        explanation(message)
    message.lesson = pb.LESSON_EXACT
    assert explanation(message).lesson == "exact"


def test_queues_are_read_with_what_is_not_known_left_out() -> None:
    message = pb.ModelQueues(
        status=pb.PartitionStatus(model_id="m", queue_count=1, detail="one queue: too little"),
        queues=[pb.Queue(queue_id="q0", upper_bound_seconds=0.0, sample_count=3)],
        histogram_edge_seconds=[1.0, 2.0],
        histogram_counts=[3],
    )
    read = model_queues(pb.ModelQueues.FromString(message.SerializeToString()))
    assert (read.status.model, read.status.text) == ("m", "one queue: too little")
    (queue,) = read.queues
    assert (queue.lower_s, queue.upper_s, queue.mean_s, queue.share) == (None, 0.0, None, None)
    assert (read.edges_s, read.counts) == ((1.0, 2.0), (3,))


@pytest.mark.parametrize(("edges", "counts"), [([], [1]), ([1.0], []), ([1.0, 2.0], [1, 2])])
def test_a_histogram_that_does_not_add_up_is_refused(
    edges: list[float], counts: list[int]
) -> None:
    message = pb.ModelQueues(histogram_edge_seconds=edges, histogram_counts=counts)
    with pytest.raises(ConversionError, match="edges"):
        model_queues(message)
