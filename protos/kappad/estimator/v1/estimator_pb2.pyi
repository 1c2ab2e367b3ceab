from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_OFF: _ClassVar[Mode]
    MODE_SHADOW: _ClassVar[Mode]
    MODE_ON: _ClassVar[Mode]

class OrderBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_BY_UNSPECIFIED: _ClassVar[OrderBy]
    ORDER_BY_SERVICE: _ClassVar[OrderBy]
    ORDER_BY_TOKENS: _ClassVar[OrderBy]

class WithinOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WITHIN_ORDER_UNSPECIFIED: _ClassVar[WithinOrder]
    WITHIN_ORDER_FCFS: _ClassVar[WithinOrder]
    WITHIN_ORDER_SCORE: _ClassVar[WithinOrder]

class BetweenOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BETWEEN_ORDER_UNSPECIFIED: _ClassVar[BetweenOrder]
    BETWEEN_ORDER_SCORE: _ClassVar[BetweenOrder]
    BETWEEN_ORDER_RATIO: _ClassVar[BetweenOrder]
    BETWEEN_ORDER_SHORTEST: _ClassVar[BetweenOrder]
    BETWEEN_ORDER_HALVES: _ClassVar[BetweenOrder]

class PreemptionOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREEMPTION_ORDER_UNSPECIFIED: _ClassVar[PreemptionOrder]
    PREEMPTION_ORDER_LAST: _ClassVar[PreemptionOrder]
    PREEMPTION_ORDER_LEAST_LOST: _ClassVar[PreemptionOrder]

class RequestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEST_KIND_UNSPECIFIED: _ClassVar[RequestKind]
    REQUEST_KIND_TRANSCRIPTION: _ClassVar[RequestKind]
    REQUEST_KIND_DETECTION: _ClassVar[RequestKind]
    REQUEST_KIND_BEAM_STEP: _ClassVar[RequestKind]
    REQUEST_KIND_SESSION: _ClassVar[RequestKind]
    REQUEST_KIND_TEXT: _ClassVar[RequestKind]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_ABORTED: _ClassVar[FinishReason]
    FINISH_REASON_ERROR: _ClassVar[FinishReason]

class PredictionSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREDICTION_SOURCE_UNSPECIFIED: _ClassVar[PredictionSource]
    PREDICTION_SOURCE_PRIOR: _ClassVar[PredictionSource]
    PREDICTION_SOURCE_PARENT: _ClassVar[PredictionSource]
    PREDICTION_SOURCE_LEARNED: _ClassVar[PredictionSource]

class DriftKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRIFT_KIND_UNSPECIFIED: _ClassVar[DriftKind]
    DRIFT_KIND_KAPPA: _ClassVar[DriftKind]
    DRIFT_KIND_MIX: _ClassVar[DriftKind]
    DRIFT_KIND_SERVICE: _ClassVar[DriftKind]

class RefitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFIT_REASON_UNSPECIFIED: _ClassVar[RefitReason]
    REFIT_REASON_FIRST: _ClassVar[RefitReason]
    REFIT_REASON_COUNT: _ClassVar[RefitReason]
    REFIT_REASON_LIKELIHOOD: _ClassVar[RefitReason]
    REFIT_REASON_DRIFT: _ClassVar[RefitReason]
    REFIT_REASON_RATES: _ClassVar[RefitReason]

class Lesson(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LESSON_UNSPECIFIED: _ClassVar[Lesson]
    LESSON_NONE: _ClassVar[Lesson]
    LESSON_EXACT: _ClassVar[Lesson]
    LESSON_LOWER_BOUND: _ClassVar[Lesson]
MODE_UNSPECIFIED: Mode
MODE_OFF: Mode
MODE_SHADOW: Mode
MODE_ON: Mode
ORDER_BY_UNSPECIFIED: OrderBy
ORDER_BY_SERVICE: OrderBy
ORDER_BY_TOKENS: OrderBy
WITHIN_ORDER_UNSPECIFIED: WithinOrder
WITHIN_ORDER_FCFS: WithinOrder
WITHIN_ORDER_SCORE: WithinOrder
BETWEEN_ORDER_UNSPECIFIED: BetweenOrder
BETWEEN_ORDER_SCORE: BetweenOrder
BETWEEN_ORDER_RATIO: BetweenOrder
BETWEEN_ORDER_SHORTEST: BetweenOrder
BETWEEN_ORDER_HALVES: BetweenOrder
PREEMPTION_ORDER_UNSPECIFIED: PreemptionOrder
PREEMPTION_ORDER_LAST: PreemptionOrder
PREEMPTION_ORDER_LEAST_LOST: PreemptionOrder
REQUEST_KIND_UNSPECIFIED: RequestKind
REQUEST_KIND_TRANSCRIPTION: RequestKind
REQUEST_KIND_DETECTION: RequestKind
REQUEST_KIND_BEAM_STEP: RequestKind
REQUEST_KIND_SESSION: RequestKind
REQUEST_KIND_TEXT: RequestKind
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_ABORTED: FinishReason
FINISH_REASON_ERROR: FinishReason
PREDICTION_SOURCE_UNSPECIFIED: PredictionSource
PREDICTION_SOURCE_PRIOR: PredictionSource
PREDICTION_SOURCE_PARENT: PredictionSource
PREDICTION_SOURCE_LEARNED: PredictionSource
DRIFT_KIND_UNSPECIFIED: DriftKind
DRIFT_KIND_KAPPA: DriftKind
DRIFT_KIND_MIX: DriftKind
DRIFT_KIND_SERVICE: DriftKind
REFIT_REASON_UNSPECIFIED: RefitReason
REFIT_REASON_FIRST: RefitReason
REFIT_REASON_COUNT: RefitReason
REFIT_REASON_LIKELIHOOD: RefitReason
REFIT_REASON_DRIFT: RefitReason
REFIT_REASON_RATES: RefitReason
LESSON_UNSPECIFIED: Lesson
LESSON_NONE: Lesson
LESSON_EXACT: Lesson
LESSON_LOWER_BOUND: Lesson

class BatchPredictRequest(_message.Message):
    __slots__ = ("inputs",)
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[PredictionInput]
    def __init__(self, inputs: _Optional[_Iterable[_Union[PredictionInput, _Mapping]]] = ...) -> None: ...

class PredictionInput(_message.Message):
    __slots__ = ("model_id", "task", "language", "timestamps", "kind", "audio_seconds", "prompt_token_count", "max_token_count")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    task: str
    language: str
    timestamps: bool
    kind: RequestKind
    audio_seconds: float
    prompt_token_count: int
    max_token_count: int
    def __init__(self, model_id: _Optional[str] = ..., task: _Optional[str] = ..., language: _Optional[str] = ..., timestamps: bool = ..., kind: _Optional[_Union[RequestKind, str]] = ..., audio_seconds: _Optional[float] = ..., prompt_token_count: _Optional[int] = ..., max_token_count: _Optional[int] = ...) -> None: ...

class BatchPredictResponse(_message.Message):
    __slots__ = ("predictions", "snapshot_version", "instance_id")
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    predictions: _containers.RepeatedCompositeFieldContainer[Prediction]
    snapshot_version: int
    instance_id: str
    def __init__(self, predictions: _Optional[_Iterable[_Union[Prediction, _Mapping]]] = ..., snapshot_version: _Optional[int] = ..., instance_id: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ("token_count", "token_count_p50", "token_count_p90", "token_count_p99", "service_seconds", "queue_id", "source")
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_P50_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_P90_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_P99_FIELD_NUMBER: _ClassVar[int]
    SERVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    token_count: float
    token_count_p50: float
    token_count_p90: float
    token_count_p99: float
    service_seconds: float
    queue_id: str
    source: PredictionSource
    def __init__(self, token_count: _Optional[float] = ..., token_count_p50: _Optional[float] = ..., token_count_p90: _Optional[float] = ..., token_count_p99: _Optional[float] = ..., service_seconds: _Optional[float] = ..., queue_id: _Optional[str] = ..., source: _Optional[_Union[PredictionSource, str]] = ...) -> None: ...

class ReportCompletionsRequest(_message.Message):
    __slots__ = ("client", "completions", "running")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    client: ClientStatus
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    running: _containers.RepeatedCompositeFieldContainer[RunningRequest]
    def __init__(self, client: _Optional[_Union[ClientStatus, _Mapping]] = ..., completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ..., running: _Optional[_Iterable[_Union[RunningRequest, _Mapping]]] = ...) -> None: ...

class ClientStatus(_message.Message):
    __slots__ = ("client_id", "model_id", "client_version", "engine_version", "applied_version", "applied_instance_id", "rejected_version", "reject_reason", "effective_mode", "mode_reason", "policy", "dropped_report_count", "failure_count", "waiting_count", "running_count", "admitted_count", "reordered_count", "kv_token_count", "slot_count")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    APPLIED_VERSION_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REJECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REJECT_REASON_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MODE_FIELD_NUMBER: _ClassVar[int]
    MODE_REASON_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DROPPED_REPORT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REORDERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    KV_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    model_id: str
    client_version: str
    engine_version: str
    applied_version: int
    applied_instance_id: str
    rejected_version: int
    reject_reason: str
    effective_mode: Mode
    mode_reason: str
    policy: str
    dropped_report_count: int
    failure_count: int
    waiting_count: int
    running_count: int
    admitted_count: int
    reordered_count: int
    kv_token_count: int
    slot_count: int
    def __init__(self, client_id: _Optional[str] = ..., model_id: _Optional[str] = ..., client_version: _Optional[str] = ..., engine_version: _Optional[str] = ..., applied_version: _Optional[int] = ..., applied_instance_id: _Optional[str] = ..., rejected_version: _Optional[int] = ..., reject_reason: _Optional[str] = ..., effective_mode: _Optional[_Union[Mode, str]] = ..., mode_reason: _Optional[str] = ..., policy: _Optional[str] = ..., dropped_report_count: _Optional[int] = ..., failure_count: _Optional[int] = ..., waiting_count: _Optional[int] = ..., running_count: _Optional[int] = ..., admitted_count: _Optional[int] = ..., reordered_count: _Optional[int] = ..., kv_token_count: _Optional[int] = ..., slot_count: _Optional[int] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ("completion_id", "model_id", "task", "language", "timestamps", "kind", "audio_seconds", "duration_source", "prompt_token_count", "cached_prompt_token_count", "output_token_count", "max_token_count", "finish_reason", "finish_unix_seconds", "wait_seconds", "service_seconds", "mean_concurrency", "preemption_count", "predicted_token_count", "snapshot_version", "request_hash", "group_id", "request_type", "queue_id", "priority")
    COMPLETION_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DURATION_SOURCE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    FINISH_UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEAN_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HASH_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    completion_id: str
    model_id: str
    task: str
    language: str
    timestamps: bool
    kind: RequestKind
    audio_seconds: float
    duration_source: str
    prompt_token_count: int
    cached_prompt_token_count: int
    output_token_count: int
    max_token_count: int
    finish_reason: FinishReason
    finish_unix_seconds: float
    wait_seconds: float
    service_seconds: float
    mean_concurrency: float
    preemption_count: int
    predicted_token_count: float
    snapshot_version: int
    request_hash: str
    group_id: str
    request_type: str
    queue_id: str
    priority: int
    def __init__(self, completion_id: _Optional[str] = ..., model_id: _Optional[str] = ..., task: _Optional[str] = ..., language: _Optional[str] = ..., timestamps: bool = ..., kind: _Optional[_Union[RequestKind, str]] = ..., audio_seconds: _Optional[float] = ..., duration_source: _Optional[str] = ..., prompt_token_count: _Optional[int] = ..., cached_prompt_token_count: _Optional[int] = ..., output_token_count: _Optional[int] = ..., max_token_count: _Optional[int] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., finish_unix_seconds: _Optional[float] = ..., wait_seconds: _Optional[float] = ..., service_seconds: _Optional[float] = ..., mean_concurrency: _Optional[float] = ..., preemption_count: _Optional[int] = ..., predicted_token_count: _Optional[float] = ..., snapshot_version: _Optional[int] = ..., request_hash: _Optional[str] = ..., group_id: _Optional[str] = ..., request_type: _Optional[str] = ..., queue_id: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class RunningRequest(_message.Message):
    __slots__ = ("request_hash", "model_id", "task", "language", "timestamps", "kind", "audio_seconds", "prompt_token_count", "output_token_count", "start_unix_seconds")
    REQUEST_HASH_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    START_UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    request_hash: str
    model_id: str
    task: str
    language: str
    timestamps: bool
    kind: RequestKind
    audio_seconds: float
    prompt_token_count: int
    output_token_count: int
    start_unix_seconds: float
    def __init__(self, request_hash: _Optional[str] = ..., model_id: _Optional[str] = ..., task: _Optional[str] = ..., language: _Optional[str] = ..., timestamps: bool = ..., kind: _Optional[_Union[RequestKind, str]] = ..., audio_seconds: _Optional[float] = ..., prompt_token_count: _Optional[int] = ..., output_token_count: _Optional[int] = ..., start_unix_seconds: _Optional[float] = ...) -> None: ...

class ReportCompletionsResponse(_message.Message):
    __slots__ = ("accepted_count", "duplicate_count", "rejections", "snapshot_version")
    ACCEPTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    accepted_count: int
    duplicate_count: int
    rejections: _containers.RepeatedCompositeFieldContainer[Rejection]
    snapshot_version: int
    def __init__(self, accepted_count: _Optional[int] = ..., duplicate_count: _Optional[int] = ..., rejections: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("index", "reason", "message")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    index: int
    reason: str
    message: str
    def __init__(self, index: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class WatchParametersRequest(_message.Message):
    __slots__ = ("client_id", "model_ids", "start_version", "instance_id")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_IDS_FIELD_NUMBER: _ClassVar[int]
    START_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    model_ids: _containers.RepeatedScalarFieldContainer[str]
    start_version: int
    instance_id: str
    def __init__(self, client_id: _Optional[str] = ..., model_ids: _Optional[_Iterable[str]] = ..., start_version: _Optional[int] = ..., instance_id: _Optional[str] = ...) -> None: ...

class WatchParametersResponse(_message.Message):
    __slots__ = ("instance_id", "version", "create_time", "snapshot", "delta", "bookmark")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    version: int
    create_time: _timestamp_pb2.Timestamp
    snapshot: Parameters
    delta: ParametersDelta
    bookmark: Bookmark
    def __init__(self, instance_id: _Optional[str] = ..., version: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[_Union[Parameters, _Mapping]] = ..., delta: _Optional[_Union[ParametersDelta, _Mapping]] = ..., bookmark: _Optional[_Union[Bookmark, _Mapping]] = ...) -> None: ...

class Parameters(_message.Message):
    __slots__ = ("kappas", "services", "partitions", "settings")
    KAPPAS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    kappas: _containers.RepeatedCompositeFieldContainer[KappaEntry]
    services: _containers.RepeatedCompositeFieldContainer[ServiceTime]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    settings: Settings
    def __init__(self, kappas: _Optional[_Iterable[_Union[KappaEntry, _Mapping]]] = ..., services: _Optional[_Iterable[_Union[ServiceTime, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class ParametersDelta(_message.Message):
    __slots__ = ("base_version", "kappas", "removed_kappas", "services", "partitions", "settings")
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    KAPPAS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_KAPPAS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    base_version: int
    kappas: _containers.RepeatedCompositeFieldContainer[KappaEntry]
    removed_kappas: _containers.RepeatedCompositeFieldContainer[KappaEntry]
    services: _containers.RepeatedCompositeFieldContainer[ServiceTime]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    settings: Settings
    def __init__(self, base_version: _Optional[int] = ..., kappas: _Optional[_Iterable[_Union[KappaEntry, _Mapping]]] = ..., removed_kappas: _Optional[_Iterable[_Union[KappaEntry, _Mapping]]] = ..., services: _Optional[_Iterable[_Union[ServiceTime, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class Bookmark(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KappaEntry(_message.Message):
    __slots__ = ("model_id", "task", "language", "timestamps", "kappa_tokens_per_second", "intercept_tokens", "ratio_p50", "ratio_p90", "ratio_p99", "sample_count", "source")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    KAPPA_TOKENS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    INTERCEPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RATIO_P50_FIELD_NUMBER: _ClassVar[int]
    RATIO_P90_FIELD_NUMBER: _ClassVar[int]
    RATIO_P99_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    task: str
    language: str
    timestamps: bool
    kappa_tokens_per_second: float
    intercept_tokens: float
    ratio_p50: float
    ratio_p90: float
    ratio_p99: float
    sample_count: int
    source: PredictionSource
    def __init__(self, model_id: _Optional[str] = ..., task: _Optional[str] = ..., language: _Optional[str] = ..., timestamps: bool = ..., kappa_tokens_per_second: _Optional[float] = ..., intercept_tokens: _Optional[float] = ..., ratio_p50: _Optional[float] = ..., ratio_p90: _Optional[float] = ..., ratio_p99: _Optional[float] = ..., sample_count: _Optional[int] = ..., source: _Optional[_Union[PredictionSource, str]] = ...) -> None: ...

class ServiceTime(_message.Message):
    __slots__ = ("model_id", "overhead_seconds", "seconds_per_token", "seconds_per_prompt_token", "reference_concurrency", "mean_service_seconds", "mean_token_count", "mean_audio_seconds", "sample_count", "slot_context_token_count")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_PER_PROMPT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    MEAN_SERVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEAN_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEAN_AUDIO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLOT_CONTEXT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    overhead_seconds: float
    seconds_per_token: float
    seconds_per_prompt_token: float
    reference_concurrency: float
    mean_service_seconds: float
    mean_token_count: float
    mean_audio_seconds: float
    sample_count: int
    slot_context_token_count: float
    def __init__(self, model_id: _Optional[str] = ..., overhead_seconds: _Optional[float] = ..., seconds_per_token: _Optional[float] = ..., seconds_per_prompt_token: _Optional[float] = ..., reference_concurrency: _Optional[float] = ..., mean_service_seconds: _Optional[float] = ..., mean_token_count: _Optional[float] = ..., mean_audio_seconds: _Optional[float] = ..., sample_count: _Optional[int] = ..., slot_context_token_count: _Optional[float] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("model_id", "boundary_seconds", "queue_ids", "lower_seconds", "upper_seconds", "mean_seconds", "share_ratios")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    LOWER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UPPER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SHARE_RATIOS_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    boundary_seconds: _containers.RepeatedScalarFieldContainer[float]
    queue_ids: _containers.RepeatedScalarFieldContainer[str]
    lower_seconds: _containers.RepeatedScalarFieldContainer[float]
    upper_seconds: _containers.RepeatedScalarFieldContainer[float]
    mean_seconds: _containers.RepeatedScalarFieldContainer[float]
    share_ratios: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, model_id: _Optional[str] = ..., boundary_seconds: _Optional[_Iterable[float]] = ..., queue_ids: _Optional[_Iterable[str]] = ..., lower_seconds: _Optional[_Iterable[float]] = ..., upper_seconds: _Optional[_Iterable[float]] = ..., mean_seconds: _Optional[_Iterable[float]] = ..., share_ratios: _Optional[_Iterable[float]] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("mode", "policy", "order_by", "overtaking_ratio", "burst_request_count", "guard_seconds", "reorder_above_count", "within_order", "between_order", "urgency_weight", "fairness_weight", "aging_rate", "aging_power", "tier_weight", "preemption_order", "reorder_until_count", "short_ratio", "short_ratio_most")
    MODE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    OVERTAKING_RATIO_FIELD_NUMBER: _ClassVar[int]
    BURST_REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    GUARD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REORDER_ABOVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    WITHIN_ORDER_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_ORDER_FIELD_NUMBER: _ClassVar[int]
    URGENCY_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FAIRNESS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    AGING_RATE_FIELD_NUMBER: _ClassVar[int]
    AGING_POWER_FIELD_NUMBER: _ClassVar[int]
    TIER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_ORDER_FIELD_NUMBER: _ClassVar[int]
    REORDER_UNTIL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SHORT_RATIO_FIELD_NUMBER: _ClassVar[int]
    SHORT_RATIO_MOST_FIELD_NUMBER: _ClassVar[int]
    mode: Mode
    policy: str
    order_by: OrderBy
    overtaking_ratio: float
    burst_request_count: float
    guard_seconds: float
    reorder_above_count: int
    within_order: WithinOrder
    between_order: BetweenOrder
    urgency_weight: float
    fairness_weight: float
    aging_rate: float
    aging_power: float
    tier_weight: float
    preemption_order: PreemptionOrder
    reorder_until_count: int
    short_ratio: float
    short_ratio_most: float
    def __init__(self, mode: _Optional[_Union[Mode, str]] = ..., policy: _Optional[str] = ..., order_by: _Optional[_Union[OrderBy, str]] = ..., overtaking_ratio: _Optional[float] = ..., burst_request_count: _Optional[float] = ..., guard_seconds: _Optional[float] = ..., reorder_above_count: _Optional[int] = ..., within_order: _Optional[_Union[WithinOrder, str]] = ..., between_order: _Optional[_Union[BetweenOrder, str]] = ..., urgency_weight: _Optional[float] = ..., fairness_weight: _Optional[float] = ..., aging_rate: _Optional[float] = ..., aging_power: _Optional[float] = ..., tier_weight: _Optional[float] = ..., preemption_order: _Optional[_Union[PreemptionOrder, str]] = ..., reorder_until_count: _Optional[int] = ..., short_ratio: _Optional[float] = ..., short_ratio_most: _Optional[float] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("instance_id", "snapshot_version", "start_time", "server_version", "settings", "learned_count", "stored_count", "backlog_count", "backlog_limit", "rejected_count", "key_count", "key_limit", "open_drift_count", "store_error", "clients", "services", "p90_coverage_ratio", "partitions")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LEARNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_COUNT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_LIMIT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    OPEN_DRIFT_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    P90_COVERAGE_RATIO_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    snapshot_version: int
    start_time: _timestamp_pb2.Timestamp
    server_version: str
    settings: Settings
    learned_count: int
    stored_count: int
    backlog_count: int
    backlog_limit: int
    rejected_count: int
    key_count: int
    key_limit: int
    open_drift_count: int
    store_error: str
    clients: _containers.RepeatedCompositeFieldContainer[ClientInfo]
    services: _containers.RepeatedCompositeFieldContainer[ServiceTime]
    p90_coverage_ratio: float
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStatus]
    def __init__(self, instance_id: _Optional[str] = ..., snapshot_version: _Optional[int] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., server_version: _Optional[str] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., learned_count: _Optional[int] = ..., stored_count: _Optional[int] = ..., backlog_count: _Optional[int] = ..., backlog_limit: _Optional[int] = ..., rejected_count: _Optional[int] = ..., key_count: _Optional[int] = ..., key_limit: _Optional[int] = ..., open_drift_count: _Optional[int] = ..., store_error: _Optional[str] = ..., clients: _Optional[_Iterable[_Union[ClientInfo, _Mapping]]] = ..., services: _Optional[_Iterable[_Union[ServiceTime, _Mapping]]] = ..., p90_coverage_ratio: _Optional[float] = ..., partitions: _Optional[_Iterable[_Union[PartitionStatus, _Mapping]]] = ...) -> None: ...

class ClientInfo(_message.Message):
    __slots__ = ("status", "report_time", "watching")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REPORT_TIME_FIELD_NUMBER: _ClassVar[int]
    WATCHING_FIELD_NUMBER: _ClassVar[int]
    status: ClientStatus
    report_time: _timestamp_pb2.Timestamp
    watching: bool
    def __init__(self, status: _Optional[_Union[ClientStatus, _Mapping]] = ..., report_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., watching: bool = ...) -> None: ...

class ListKappasRequest(_message.Message):
    __slots__ = ("model_id", "page_size", "page_token")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    page_size: int
    page_token: str
    def __init__(self, model_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListKappasResponse(_message.Message):
    __slots__ = ("kappas", "next_page_token")
    KAPPAS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    kappas: _containers.RepeatedCompositeFieldContainer[KappaEntry]
    next_page_token: str
    def __init__(self, kappas: _Optional[_Iterable[_Union[KappaEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListKappaHistoryRequest(_message.Message):
    __slots__ = ("model_id", "language", "page_size", "page_token")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    language: str
    page_size: int
    page_token: str
    def __init__(self, model_id: _Optional[str] = ..., language: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListKappaHistoryResponse(_message.Message):
    __slots__ = ("points", "next_page_token")
    POINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    points: _containers.RepeatedCompositeFieldContainer[KappaPoint]
    next_page_token: str
    def __init__(self, points: _Optional[_Iterable[_Union[KappaPoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class KappaPoint(_message.Message):
    __slots__ = ("entry", "record_time", "snapshot_version")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    entry: KappaEntry
    record_time: _timestamp_pb2.Timestamp
    snapshot_version: int
    def __init__(self, entry: _Optional[_Union[KappaEntry, _Mapping]] = ..., record_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class ListDriftEventsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDriftEventsResponse(_message.Message):
    __slots__ = ("events", "next_page_token")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[DriftEvent]
    next_page_token: str
    def __init__(self, events: _Optional[_Iterable[_Union[DriftEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DriftEvent(_message.Message):
    __slots__ = ("event_id", "kind", "model_id", "task", "language", "timestamps", "detect_time", "before", "after", "adapt_completion_count", "end_time", "z_score", "detect_completion_count", "detail")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    DETECT_TIME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ADAPT_COMPLETION_COUNT_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    Z_SCORE_FIELD_NUMBER: _ClassVar[int]
    DETECT_COMPLETION_COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    kind: DriftKind
    model_id: str
    task: str
    language: str
    timestamps: bool
    detect_time: _timestamp_pb2.Timestamp
    before: float
    after: float
    adapt_completion_count: int
    end_time: _timestamp_pb2.Timestamp
    z_score: float
    detect_completion_count: int
    detail: str
    def __init__(self, event_id: _Optional[str] = ..., kind: _Optional[_Union[DriftKind, str]] = ..., model_id: _Optional[str] = ..., task: _Optional[str] = ..., language: _Optional[str] = ..., timestamps: bool = ..., detect_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., before: _Optional[float] = ..., after: _Optional[float] = ..., adapt_completion_count: _Optional[int] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., z_score: _Optional[float] = ..., detect_completion_count: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("model_id", "page_size", "page_token")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    page_size: int
    page_token: str
    def __init__(self, model_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("models", "next_page_token")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelQueues]
    next_page_token: str
    def __init__(self, models: _Optional[_Iterable[_Union[ModelQueues, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ModelQueues(_message.Message):
    __slots__ = ("status", "queues", "histogram_edge_seconds", "histogram_counts")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_EDGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_COUNTS_FIELD_NUMBER: _ClassVar[int]
    status: PartitionStatus
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    histogram_edge_seconds: _containers.RepeatedScalarFieldContainer[float]
    histogram_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, status: _Optional[_Union[PartitionStatus, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., histogram_edge_seconds: _Optional[_Iterable[float]] = ..., histogram_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class PartitionStatus(_message.Message):
    __slots__ = ("model_id", "queue_count", "detail", "completion_count", "sample_count", "fit_count", "revision_count")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    queue_count: int
    detail: str
    completion_count: int
    sample_count: int
    fit_count: int
    revision_count: int
    def __init__(self, model_id: _Optional[str] = ..., queue_count: _Optional[int] = ..., detail: _Optional[str] = ..., completion_count: _Optional[int] = ..., sample_count: _Optional[int] = ..., fit_count: _Optional[int] = ..., revision_count: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("queue_id", "lower_bound_seconds", "upper_bound_seconds", "least_seconds", "most_seconds", "mean_seconds", "share_ratio", "sample_count")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UPPER_BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEAST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MOST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SHARE_RATIO_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    queue_id: str
    lower_bound_seconds: float
    upper_bound_seconds: float
    least_seconds: float
    most_seconds: float
    mean_seconds: float
    share_ratio: float
    sample_count: int
    def __init__(self, queue_id: _Optional[str] = ..., lower_bound_seconds: _Optional[float] = ..., upper_bound_seconds: _Optional[float] = ..., least_seconds: _Optional[float] = ..., most_seconds: _Optional[float] = ..., mean_seconds: _Optional[float] = ..., share_ratio: _Optional[float] = ..., sample_count: _Optional[int] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("model_id", "page_size", "page_token")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    page_size: int
    page_token: str
    def __init__(self, model_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("partitions", "next_page_token")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRevision]
    next_page_token: str
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionRevision, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PartitionRevision(_message.Message):
    __slots__ = ("revision_number", "partition", "reason", "detail", "completion_count", "sample_count", "fit_seconds", "install_time", "snapshot_version")
    REVISION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INSTALL_TIME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    revision_number: int
    partition: Partition
    reason: RefitReason
    detail: str
    completion_count: int
    sample_count: int
    fit_seconds: float
    install_time: _timestamp_pb2.Timestamp
    snapshot_version: int
    def __init__(self, revision_number: _Optional[int] = ..., partition: _Optional[_Union[Partition, _Mapping]] = ..., reason: _Optional[_Union[RefitReason, str]] = ..., detail: _Optional[str] = ..., completion_count: _Optional[int] = ..., sample_count: _Optional[int] = ..., fit_seconds: _Optional[float] = ..., install_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class ListCompletionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCompletionsResponse(_message.Message):
    __slots__ = ("completions", "next_page_token")
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    next_page_token: str
    def __init__(self, completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExplainRequestRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ExplainRequestResponse(_message.Message):
    __slots__ = ("explanations",)
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    explanations: _containers.RepeatedCompositeFieldContainer[Explanation]
    def __init__(self, explanations: _Optional[_Iterable[_Union[Explanation, _Mapping]]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("completion", "client_id", "lesson", "lesson_reason", "kappas", "prediction", "snapshot_version", "service", "drift_events", "service_taught")
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    LESSON_FIELD_NUMBER: _ClassVar[int]
    LESSON_REASON_FIELD_NUMBER: _ClassVar[int]
    KAPPAS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    DRIFT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TAUGHT_FIELD_NUMBER: _ClassVar[int]
    completion: Completion
    client_id: str
    lesson: Lesson
    lesson_reason: str
    kappas: _containers.RepeatedCompositeFieldContainer[KappaEntry]
    prediction: Prediction
    snapshot_version: int
    service: ServiceTime
    drift_events: _containers.RepeatedCompositeFieldContainer[DriftEvent]
    service_taught: bool
    def __init__(self, completion: _Optional[_Union[Completion, _Mapping]] = ..., client_id: _Optional[str] = ..., lesson: _Optional[_Union[Lesson, str]] = ..., lesson_reason: _Optional[str] = ..., kappas: _Optional[_Iterable[_Union[KappaEntry, _Mapping]]] = ..., prediction: _Optional[_Union[Prediction, _Mapping]] = ..., snapshot_version: _Optional[int] = ..., service: _Optional[_Union[ServiceTime, _Mapping]] = ..., drift_events: _Optional[_Iterable[_Union[DriftEvent, _Mapping]]] = ..., service_taught: bool = ...) -> None: ...

class SetModeRequest(_message.Message):
    __slots__ = ("mode", "reason", "request_id")
    MODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    mode: Mode
    reason: str
    request_id: str
    def __init__(self, mode: _Optional[_Union[Mode, str]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetModeResponse(_message.Message):
    __slots__ = ("mode", "previous_mode", "snapshot_version")
    MODE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MODE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    mode: Mode
    previous_mode: Mode
    snapshot_version: int
    def __init__(self, mode: _Optional[_Union[Mode, str]] = ..., previous_mode: _Optional[_Union[Mode, str]] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class ExportStateRequest(_message.Message):
    __slots__ = ("model_id",)
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    def __init__(self, model_id: _Optional[str] = ...) -> None: ...

class ExportStateResponse(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: StateHeader
    chunk: bytes
    def __init__(self, header: _Optional[_Union[StateHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class StateHeader(_message.Message):
    __slots__ = ("schema_version", "learned_count", "key_count", "size_bytes", "server_version", "create_time")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEARNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    learned_count: int
    key_count: int
    size_bytes: int
    server_version: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, schema_version: _Optional[int] = ..., learned_count: _Optional[int] = ..., key_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., server_version: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
