import pytest

from estimator.core.config import MAX_CHAIN, CoreConfig
from sched_client.model import Key


def test_the_longest_chain_is_as_long_as_the_bound_says() -> None:
    assert len(tuple(Key("m", "t", "en", True).chain())) == MAX_CHAIN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("forgetting", 0.0),
        ("forgetting", 1.1),
        ("service_forgetting", 2.0),
        ("drift_keep_ratio", 0.0),
        ("shrinkage", 0.0),
        ("prior_kappa_tokens_per_s", float("nan")),
        ("prior_kappa_tokens_per_s", -1.0),
        ("prior_mean_audio_s", 0.0),
        ("min_samples", 0),
        ("reference_concurrency", 0.5),
        ("max_keys", 3),
    ],
)
def test_a_constant_outside_its_domain_is_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        CoreConfig(**{name: value})  # type: ignore[arg-type]  # one float for any field
