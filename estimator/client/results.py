"""What the client library answers: frozen, free of generated types."""

from dataclasses import dataclass

from estimator.core.drift_event import DriftEvent
from estimator.core.lesson import Lesson
from estimator.core.observation import Completion
from sched_client.model import Estimate, KappaEntry, Key, Mode, ServiceTime, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictResult:
    """Estimates in the order of the inputs.

    Attributes
    ----------
    estimates : tuple of Estimate
        One for each input.
    snapshot_version : int
        Version of the snapshot that answered last.
    instance_id : str
        Instance that the version belongs to.
    """

    estimates: tuple[Estimate, ...]
    snapshot_version: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """One completion that the sidecar refused.

    Attributes
    ----------
    index : int
        Into the completions given to ``report``.
    reason : str
        Stable, UPPER_SNAKE.
    message : str
        Names field, value, limit and remedy.
    """

    index: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """What became of a report.

    Attributes
    ----------
    accepted, duplicates : int
        Rows stored, and rows already known.
    rejections : tuple of RejectedRow
        Rows refused; sending them again would not help.
    snapshot_version : int
        Newest version at the sidecar.
    """

    accepted: int
    duplicates: int
    rejections: tuple[RejectedRow, ...]
    snapshot_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineClient:
    """One client, as the sidecar heard it last.

    Attributes
    ----------
    client_id, model, client_version, engine_version : str
        What it calls itself.
    applied_version : int
        Snapshot that it applies; 0 for its own prior.
    applied_instance_id : str
        Instance of that version.
    rejected_version : int or None
        The last snapshot that it refused.
    reject_reason : str
        Why.
    effective_mode : {"off", "shadow", "on"} or None
        The mode in force there; None if it did not say.
    mode_reason, policy : str
        Why the mode differs from what was asked, and the policy in force.
    dropped_reports, failures, waiting, running, admitted, reordered : int
        Counts; the first two and the last two since its boot.
    reported_s : float
        Unix time of its last report.
    watching : bool
        Whether it watches snapshots now.
    """

    client_id: str
    model: str
    client_version: str
    engine_version: str
    applied_version: int
    applied_instance_id: str
    rejected_version: int | None
    reject_reason: str
    effective_mode: Mode | None
    mode_reason: str
    policy: str
    dropped_reports: int
    failures: int
    waiting: int
    running: int
    admitted: int
    reordered: int
    reported_s: float
    watching: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How one model's partition stands.

    Attributes
    ----------
    model : str
        Served model's name.
    queues : int
        Queues in force.
    text : str
        What holds, and where there is one queue, why.
    completions, points : int
        Completions observed, and points in the sample.
    fits, revisions : int
        Fits done, and how many of them changed the partition.
    """

    model: str
    queues: int
    text: str
    completions: int
    points: int
    fits: int
    revisions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue of a model.

    Attributes
    ----------
    queue_id : str
        Stable across refits.
    lower_s, upper_s : float or None
        Work that is routed to it, in seconds; None where there is no bound.
    least_s, most_s, mean_s : float or None
        Work that was seen in it, in seconds; None where nothing was learned.
    share : float or None
        Of recent requests, in [0, 1].
    points : int
        That share of the sample's points.
    """

    queue_id: str
    lower_s: float | None
    upper_s: float | None
    least_s: float | None
    most_s: float | None
    mean_s: float | None
    share: float | None
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQueues:
    """The queues of one model, and the work that they were found in.

    Attributes
    ----------
    status : PartitionStatus
        How the partition stands.
    queues : tuple of Queue
        Shortest work first.
    edges_s : tuple of float
        Ascending edges of the sample's histogram in seconds of work; none without a sample.
    counts : tuple of int
        Points between each two edges.
    """

    status: PartitionStatus
    queues: tuple[Queue, ...]
    edges_s: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the sidecar is doing.

    Attributes
    ----------
    instance_id, server_version : str
        Which sidecar answered.
    snapshot_version : int
        Newest.
    started_s : float
        Unix time.
    settings : Settings
        In force.
    learned, stored, backlog, backlog_limit, rejected, keys, key_limit, open_drifts : int
        Counts, as the API names them.
    p90_coverage : float or None
        Share of the latest thousand or so completions at or below p90; None before any.
    store_error : str
        Empty while the store works.
    clients : tuple of EngineClient
        Heard from lately.
    services : tuple of (str, ServiceTime)
        By model; the empty name is the fallback.
    partitions : tuple of PartitionStatus
        By model.
    """

    instance_id: str
    server_version: str
    snapshot_version: int
    started_s: float
    settings: Settings
    learned: int
    stored: int
    backlog: int
    backlog_limit: int
    rejected: int
    keys: int
    key_limit: int
    open_drifts: int
    p90_coverage: float | None
    store_error: str
    clients: tuple[EngineClient, ...]
    services: tuple[tuple[str, ServiceTime], ...]
    partitions: tuple[PartitionStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One completion beside what is known now.

    Attributes
    ----------
    completion : Completion
        As it was reported.
    lesson : {"none", "exact", "lower_bound"}
        What it told of κ.
    lesson_reason : str
        Why it taught no more than that; empty where it taught all it could.
    service_taught : bool
        Whether it told how long such a request takes.
    kappas : tuple of (Key, KappaEntry)
        The keys that it belongs to and that have a κ, the most particular first.
    estimate : Estimate
        What would be expected of the same request.
    service : ServiceTime
        Of its model.
    drift_events : tuple of DriftEvent
        Changes of its keys around its end, newest first.
    """

    completion: Completion
    lesson: Lesson
    lesson_reason: str
    service_taught: bool
    kappas: tuple[tuple[Key, KappaEntry], ...]
    estimate: Estimate
    service: ServiceTime
    drift_events: tuple[DriftEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResult:
    """What was learned, at one moment.

    Attributes
    ----------
    schema : int
        Version of its layout.
    learned, keys : int
        Completions behind it, and keys with a κ in it.
    server_version : str
        Of the sidecar that it came from.
    created_s : float
        Unix time.
    text : str
        JSON that sidecars of the same schema read.
    """

    schema: int
    learned: int
    keys: int
    server_version: str
    created_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeResult:
    """The mode that was set.

    Attributes
    ----------
    mode, previous_mode : {"off", "shadow", "on"}
        Now, and before.
    snapshot_version : int
        The version that carries it.
    """

    mode: Mode
    previous_mode: Mode
    snapshot_version: int
