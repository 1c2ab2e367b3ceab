"""The one conversion between the API's messages and the sidecar's own types, both ways.

Nothing here judges values: `estimator.core.observation.violation_of` and the handlers do.
"""

from estimator.convert.history import (
    drift_from_proto,
    drift_to_proto,
    kappa_point_from_proto,
    kappa_point_to_proto,
    partition_record_from_proto,
    partition_record_to_proto,
)
from estimator.convert.parameters import (
    delta_from_proto,
    delta_to_proto,
    kappa_from_proto,
    kappa_to_proto,
    key_from_proto,
    key_to_proto,
    parameters_from_proto,
    parameters_to_proto,
    partition_from_proto,
    partition_to_proto,
    service_from_proto,
    service_to_proto,
    settings_from_proto,
    settings_to_proto,
)
from estimator.convert.rows import (
    completion_from_proto,
    completion_to_proto,
    estimate_from_proto,
    estimate_to_proto,
    features_from_proto,
    features_to_proto,
    fill_prediction,
)
from estimator.convert.running import running_from_proto
from estimator.convert.scalars import (
    ConversionError,
    lesson_from_proto,
    lesson_to_proto,
    mode_from_proto,
    mode_to_proto,
    seconds_of,
    timestamp_of,
)

__all__ = [
    "ConversionError",
    "completion_from_proto",
    "completion_to_proto",
    "delta_from_proto",
    "delta_to_proto",
    "drift_from_proto",
    "drift_to_proto",
    "estimate_from_proto",
    "estimate_to_proto",
    "features_from_proto",
    "features_to_proto",
    "fill_prediction",
    "kappa_from_proto",
    "kappa_point_from_proto",
    "kappa_point_to_proto",
    "kappa_to_proto",
    "key_from_proto",
    "key_to_proto",
    "lesson_from_proto",
    "lesson_to_proto",
    "mode_from_proto",
    "mode_to_proto",
    "parameters_from_proto",
    "parameters_to_proto",
    "partition_from_proto",
    "partition_record_from_proto",
    "partition_record_to_proto",
    "partition_to_proto",
    "running_from_proto",
    "seconds_of",
    "service_from_proto",
    "service_to_proto",
    "settings_from_proto",
    "settings_to_proto",
    "timestamp_of",
]
