"""Enums, instants and the error of the conversion.

Unknown enum values follow the comments in ``estimator.proto``; each function says what it does.
"""

import math
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from estimator.core.drift_event import DriftKind
from estimator.core.lesson import Lesson
from estimator.core.observation import FinishReason
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import (
    Between,
    Mode,
    OrderBy,
    Preemption,
    RequestKind,
    Source,
    Within,
)

_INT32_MAX: Final = 2**31 - 1
_NANOS: Final = 1_000_000_000

MODES: Final[dict[pb.Mode, Mode]] = {
    pb.MODE_OFF: "off",
    pb.MODE_SHADOW: "shadow",
    pb.MODE_ON: "on",
}
ORDERS: Final[dict[pb.OrderBy, OrderBy]] = {
    pb.ORDER_BY_SERVICE: "service",
    pb.ORDER_BY_TOKENS: "tokens",
}
WITHINS: Final[dict[pb.WithinOrder, Within]] = {
    pb.WITHIN_ORDER_FCFS: "fcfs",
    pb.WITHIN_ORDER_SCORE: "score",
}
BETWEENS: Final[dict[pb.BetweenOrder, Between]] = {
    pb.BETWEEN_ORDER_SCORE: "score",
    pb.BETWEEN_ORDER_RATIO: "ratio",
    pb.BETWEEN_ORDER_SHORTEST: "shortest",
    pb.BETWEEN_ORDER_HALVES: "halves",
}
PREEMPTIONS: Final[dict[pb.PreemptionOrder, Preemption]] = {
    pb.PREEMPTION_ORDER_LAST: "last",
    pb.PREEMPTION_ORDER_LEAST_LOST: "least_lost",
}
KINDS: Final[dict[pb.RequestKind, RequestKind]] = {
    pb.REQUEST_KIND_TRANSCRIPTION: "transcription",
    pb.REQUEST_KIND_DETECTION: "detection",
    pb.REQUEST_KIND_BEAM_STEP: "beam_step",
    pb.REQUEST_KIND_SESSION: "session",
    pb.REQUEST_KIND_TEXT: "text",
}
FINISHES: Final[dict[pb.FinishReason, FinishReason]] = {
    pb.FINISH_REASON_STOP: "stop",
    pb.FINISH_REASON_LENGTH: "length",
    pb.FINISH_REASON_ABORTED: "aborted",
    pb.FINISH_REASON_ERROR: "error",
}
SOURCES: Final[dict[pb.PredictionSource, Source]] = {
    pb.PREDICTION_SOURCE_PRIOR: "prior",
    pb.PREDICTION_SOURCE_PARENT: "parent",
    pb.PREDICTION_SOURCE_LEARNED: "learned",
}
DRIFTS: Final[dict[pb.DriftKind, DriftKind]] = {
    pb.DRIFT_KIND_KAPPA: "kappa",
    pb.DRIFT_KIND_MIX: "mix",
    pb.DRIFT_KIND_SERVICE: "service",
}
REFITS: Final[dict[pb.RefitReason, str]] = {
    pb.REFIT_REASON_FIRST: "first",
    pb.REFIT_REASON_COUNT: "count",
    pb.REFIT_REASON_LIKELIHOOD: "likelihood",
    pb.REFIT_REASON_DRIFT: "drift",
    pb.REFIT_REASON_RATES: "rates",
}
LESSONS: Final[dict[pb.Lesson, Lesson]] = {
    pb.LESSON_NONE: "none",
    pb.LESSON_EXACT: "exact",
    pb.LESSON_LOWER_BOUND: "lower_bound",
}
MODES_OUT: Final = {name: number for number, name in MODES.items()}
ORDERS_OUT: Final = {name: number for number, name in ORDERS.items()}
WITHINS_OUT: Final = {name: number for number, name in WITHINS.items()}
BETWEENS_OUT: Final = {name: number for number, name in BETWEENS.items()}
PREEMPTIONS_OUT: Final = {name: number for number, name in PREEMPTIONS.items()}
KINDS_OUT: Final = {name: number for number, name in KINDS.items()}
FINISHES_OUT: Final = {name: number for number, name in FINISHES.items()}
SOURCES_OUT: Final = {name: number for number, name in SOURCES.items()}
DRIFTS_OUT: Final = {name: number for number, name in DRIFTS.items()}
REFITS_OUT: Final = {name: number for number, name in REFITS.items()}
LESSONS_OUT: Final = {name: number for number, name in LESSONS.items()}


class ConversionError(ValueError):
    """A message that has no meaning here.

    Attributes
    ----------
    reason : str
        Stable, UPPER_SNAKE.
    field : str
        The field at fault.
    """

    def __init__(self, *, reason: str, field: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field


def mode_from_proto(mode: pb.Mode) -> Mode:
    """Give the mode; UNSPECIFIED and unknown ones raise `ConversionError`."""
    found = MODES.get(mode)
    if found is None:
        raise ConversionError(
            reason="MODE_UNKNOWN",
            field="mode",
            message=f"mode is {int(mode)}; set MODE_OFF, MODE_SHADOW or MODE_ON",
        )
    return found


def lesson_from_proto(lesson: pb.Lesson) -> Lesson:
    """Give what a completion told; UNSPECIFIED and unknown values raise `ConversionError`."""
    found = LESSONS.get(lesson)
    if found is None:
        raise ConversionError(
            reason="LESSON_UNKNOWN",
            field="lesson",
            message=f"lesson is {int(lesson)}, which this version does not know; upgrade it",
        )
    return found


def lesson_to_proto(lesson: Lesson) -> pb.Lesson:
    """Give the enum value of what a completion told."""
    return LESSONS_OUT[lesson]


def mode_to_proto(mode: Mode) -> pb.Mode:
    """Give the enum value of a mode."""
    return MODES_OUT[mode]


def timestamp_of(unix_s: float) -> Timestamp:
    """Convert Unix seconds, finite, to a Timestamp (to the nanosecond)."""
    seconds = math.floor(unix_s)
    nanos = round((unix_s - seconds) * _NANOS)
    return Timestamp(seconds=seconds + nanos // _NANOS, nanos=nanos % _NANOS)


def seconds_of(timestamp: Timestamp) -> float:
    """Convert a Timestamp to Unix seconds."""
    return timestamp.seconds + timestamp.nanos / _NANOS


def int32(value: int) -> int:
    """Clip to what an int32 field holds."""
    # Limits are checked where values enter; a value beyond int32 must still not crash an answer.
    return max(-_INT32_MAX - 1, min(value, _INT32_MAX))
