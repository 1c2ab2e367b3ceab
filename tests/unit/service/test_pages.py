"""Page tokens lead on, and only for the arguments that they were made for."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.runtime.errors import InvalidRequestError
from estimator.service.pages import decode_token, encode_token, integer_of

_ARGUMENTS = ["ListKappaHistory", "m", ""]


@given(st.text(max_size=30), st.integers(0, 2**63 - 1))
def test_a_token_gives_back_its_cursor(model: str, row_id: int) -> None:
    arguments = ["ListKappaHistory", model, ""]
    token = encode_token(arguments, [row_id])
    assert decode_token(token, arguments, length=1) == [row_id]


def test_the_longest_names_fit() -> None:
    name = "\N{GRINNING FACE}" * 128
    cursor: list[int | str | None] = [-(2**62), name, name, name, "None"]
    token = encode_token(["ListKappas", name], cursor)
    assert decode_token(token, ["ListKappas", name], length=5) == cursor


def test_no_token_is_the_first_page() -> None:
    assert decode_token("", _ARGUMENTS, length=1) is None
    assert integer_of(None) is None


def test_a_token_for_other_arguments_is_refused() -> None:
    token = encode_token(_ARGUMENTS, [7])
    with pytest.raises(InvalidRequestError, match="other arguments") as caught:
        decode_token(token, ["ListKappaHistory", "other", ""], length=1)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "%%%%",
        "ü",
        "A" * 100_000,
        _token("[]"),
        _token("7"),
        _token("[" * 5000),
        _token('[["ListKappaHistory","m",""],[1,2]]'),
        _token('[["ListKappaHistory","m",""],7]'),
        _token('{"a":1,"b":2}'),
    ],
)
def test_whatever_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequestError, match="page_token"):
        decode_token(token, _ARGUMENTS, length=1)


@given(st.text(max_size=200))
def test_no_text_is_ever_an_unexpected_error(token: str) -> None:
    try:
        decode_token(token, _ARGUMENTS, length=1)
    except InvalidRequestError:
        return
    assert token == ""


@pytest.mark.parametrize("value", ["7", None, True, -1, 2**63, 1.5])
def test_a_forged_row_id_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequestError):
        integer_of([value])  # type: ignore[list-item]  # forged on purpose
