import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.observation import MAX_TOKENS, Completion
from sched_client.model import Features, Key
from sched_client.text_class import class_bounds, size_class, text_class

PROMPTS = st.integers(1, MAX_TOKENS)


@given(PROMPTS, st.text(max_size=64))
def test_a_class_holds_its_prompt_and_says_so(prompt: int, request_type: str) -> None:
    name = text_class(request_type, prompt)
    low, high = class_bounds(name)
    assert low <= prompt <= high
    assert size_class(name) == text_class("", prompt)


@given(PROMPTS)
def test_all_prompts_within_the_bounds_are_of_the_class(prompt: int) -> None:
    low, high = map(int, class_bounds(text_class("", prompt)))
    assert text_class("", low) == text_class("", prompt) == text_class("", high)
    assert text_class("", high + 1) != text_class("", prompt)
    assert high * high < 2 * low * low


@pytest.mark.parametrize(
    "name", ["", "chat", "chat/", "/0", "/48", "/" + "9" * 60, "chat/²", "/-3"]
)
def test_what_names_no_size_bounds_nothing(name: str) -> None:
    low, high = class_bounds(name)
    assert low == 1.0
    assert high > MAX_TOKENS


def test_a_completion_teaches_what_a_request_of_its_class_is_estimated_by() -> None:
    done = Completion(
        completion_id="c", task="text", kind="text", request_type="code", prompt_tokens=3_000
    )
    asked = Features(task="text", language=text_class("code", 3_000), kind="text")
    assert done.key == asked.key == Key("default", "text", "code/24")


def test_a_language_is_nothing_that_text_is_learned_by() -> None:
    done = Completion(
        completion_id="c", task="text", kind="text", language="en", prompt_tokens=3_000
    )
    assert done.key == Key("default", "text", "/24")
