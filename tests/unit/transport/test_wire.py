"""The wire format as far as the client reads it, against protobuf itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.transport.wire import WireError, cuts, fields

entries = st.lists(
    st.builds(
        pb.KappaEntry,
        model_id=st.text(max_size=300),
        language=st.text(max_size=3),
        kappa_tokens_per_second=st.floats(allow_nan=False),
        sample_count=st.integers(-(2**63), 2**63 - 1),
    ),
    max_size=12,
)


@given(entries=entries, size=st.integers(0, 400), lead=st.binary(max_size=5))
def test_pieces_of_a_message_merge_to_the_message(
    entries: list[pb.KappaEntry], size: int, lead: bytes
) -> None:
    whole = pb.Parameters(
        kappas=entries,
        services=[pb.ServiceTime(model_id="m", overhead_seconds=1.5)],
        settings=pb.Settings(mode=pb.MODE_ON, guard_seconds=3.0),
    )
    data = lead + whole.SerializeToString()
    merged = pb.Parameters()
    at = len(lead)
    for start, end in cuts(data, len(lead), len(data), size):
        assert start == at
        assert end > start
        merged.MergeFrom(pb.Parameters.FromString(data[start:end]))
        at = end
    assert at == len(data)
    assert merged == whole


def test_pieces_are_no_longer_than_asked_unless_they_are_one_field() -> None:
    message = pb.Parameters(kappas=[pb.KappaEntry(model_id="x" * 60)] * 50)
    data = message.SerializeToString()
    assert {end - start for start, end in cuts(data, 0, len(data), 200)} == {192, 128}
    assert {end - start for start, end in cuts(data, 0, len(data), 10)} == {64}


@given(st.binary(max_size=60))
def test_any_bytes_give_fields_or_an_error_never_more(data: bytes) -> None:
    try:
        found = list(fields(data))
    except WireError:
        with pytest.raises(WireError):
            list(cuts(data, 0, len(data), 8))
        return
    assert [field.start for field in found[1:]] == [field.end for field in found[:-1]]
    assert sum(end - start for start, end in cuts(data, 0, len(data), 8)) == len(data)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x0a\xff", b"\x0b", b"\x80" * 11, b"\x09\x01", b"\x0d\x01\x02"],
)
def test_a_message_cut_short_or_broken_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        list(fields(data))
    with pytest.raises(WireError):
        list(cuts(data, 0, len(data), 100))
