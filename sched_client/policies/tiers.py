"""What a step of vLLM's priority is worth. Standard library only."""

from math import inf
from typing import Final

from sched_client.model import PolicyParameters

# A tier beyond so many steps counts as this many: ewsjf looks at one head a queue and tier.
MAX_TIER_STEPS: Final = 4


def strict(parameters: PolicyParameters) -> bool:
    """Tell whether a smaller priority goes first whatever waits in the others."""
    return parameters.tier_weight == inf


def tier_of(priority: int, tier_weight: float) -> int:
    """Give the tier whose weight counts: 0 where priorities are strict or weigh the same."""
    if not priority or tier_weight in (1.0, inf):
        return 0
    return max(-MAX_TIER_STEPS, min(MAX_TIER_STEPS, priority))


def tier_factor(tier: int, tier_weight: float) -> float:
    """Give what a score is multiplied by in a tier: ``tier_weight`` for each step below 0."""
    return tier_weight**-tier if tier else 1.0
