"""What the sidecar refuses or cannot do now, each with a stable reason.

Handlers and the runtime raise these; `estimator.service.errors` alone turns them into statuses.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

__all__ = [
    "EstimatorError",
    "ExhaustedError",
    "FieldViolation",
    "InvalidRequestError",
    "NotFoundError",
    "UnavailableError",
]


class EstimatorError(Exception):
    """Base of what callers are told about.

    Parameters
    ----------
    message : str
        Names the value, the limit and the remedy.
    reason : str, optional
        Stable, UPPER_SNAKE, at most 63 characters; the class has a default.
    metadata : Mapping of str to str, optional
        Everything that varies in the message.
    retry_after_s : float or None
        When trying again makes sense; None if it does not.
    """

    default_reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason or self.default_reason
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s


FieldViolation = tuple[str, str]
"""Path of a field, and what is wrong with it."""


class InvalidRequestError(EstimatorError):
    """The caller's mistake; sending it again does not help.

    Parameters
    ----------
    violations : sequence of FieldViolation
        At least one; the first one becomes the message.
    """

    default_reason = "INVALID_REQUEST"

    def __init__(self, violations: Sequence[FieldViolation], *, reason: str = "") -> None:
        field, description = violations[0]
        super().__init__(f"{field}: {description}", reason=reason, metadata={"field": field})
        self.violations = tuple(violations)


class NotFoundError(EstimatorError):
    """What was asked for is not there, or no longer."""

    default_reason = "NOT_FOUND"


class ExhaustedError(EstimatorError):
    """A bound is reached; later there may be room."""

    default_reason = "EXHAUSTED"


class UnavailableError(EstimatorError):
    """Draining, the store does not work, or the learner is dead; try again later."""

    default_reason = "UNAVAILABLE"
