"""Every metric's name, unit and help text; nothing else defines one.

Labels have bounded values: reasons, methods, codes and kinds are words of ours, never a caller's.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

__all__ = ["Metrics"]

# From a WAL append on a fast disk to a stalled one.
_COMMIT_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
# Around the 2 ms that one slice may take.
_SLICE_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.05)
# Around the 250 ms that a fit may take.
_FIT_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_RPC_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0)


class Metrics:
    """The sidecar's metrics, on a registry of their own.

    Attributes
    ----------
    registry : CollectorRegistry
        What /metrics renders.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry: Final = registry
        ProcessCollector(namespace="kappad", registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kappad_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"kappad_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"kappad_{name}", text, labels, buckets=buckets, registry=registry)

        self.build = gauge("build_info", "Version of the sidecar; always 1.", "version")
        self.completions = counter(
            "completions", "Reported rows: accepted, duplicate or rejected.", "result"
        )
        self.rejections = counter("rejections", "Rejected rows by reason.", "reason")
        self.learned = counter("learned_completions", "Completions learned, replay included.")
        self.unlearnable = counter(
            "unlearnable_completions", "Stored rows that the learner failed on during replay."
        )
        self.backlog = gauge("backlog_completions", "Rows that wait to be stored and learned.")
        self.backlog_limit = gauge("backlog_limit_completions", "Most rows that may wait.")
        self.backlog_full = counter("backlog_full", "Reports refused since the backlog was full.")
        self.commit_s = histogram(
            "commit_seconds", "Seconds that one group commit took.", _COMMIT_BUCKETS_S
        )
        self.slice_s = histogram(
            "learn_slice_seconds", "Seconds that the event loop was held.", _SLICE_BUCKETS_S
        )
        self.store_up = gauge("store_up", "1 while the store takes writes.")
        self.store_failures = counter("store_failures", "Operations that the store failed at.")
        self.checkpoints = counter("checkpoints", "Checkpoints saved.")
        self.learner_up = gauge("learner_up", "1 while the learner's task is alive.")
        self.replaying = gauge("replaying", "1 while stored rows are learned after a start.")
        self.snapshot_version = gauge("snapshot_version", "Newest snapshot.")
        self.publications = counter("publications", "Snapshots published.")
        self.keys = gauge("keys", "Keys with a κ.")
        self.key_limit = gauge("key_limit", "Most keys with a κ.")
        self.p90_coverage = gauge(
            "p90_coverage_ratio",
            "Share of the latest completions at or below p90; NaN before any.",
        )
        self.open_drifts = gauge("open_drifts", "Drift events that have not ended.")
        self.drifts = counter("drift_events", "Drift events and their ends, by kind.", "kind")
        self.queues = gauge("queues", "Queues of all models that were fitted.")
        self.partitioned_models = gauge("partitioned_models", "Models with more than one queue.")
        self.fits = counter("partition_fits", "Fits of models' queues, by reason.", "reason")
        self.partitions = counter(
            "partitions_installed", "Fits that changed a model's queues, by reason.", "reason"
        )
        self.fit_failures = counter("partition_fit_failures", "Fits that failed.")
        self.fit_s = histogram(
            "partition_fit_seconds", "Seconds of a fit, in its thread.", _FIT_BUCKETS_S
        )
        self.mode = gauge("mode", "1 for the mode asked for.", "mode")
        self.watchers = gauge("watchers", "Watches now.")
        self.watcher_limit = gauge("watcher_limit", "Most watches at once.")
        self.watchers_refused = counter("watchers_refused", "Watches beyond the limit.")
        self.watch_messages = counter("watch_messages", "Messages to watchers.", "event")
        self.clients = gauge("clients", "Clients remembered.")
        self.clients_forgotten = counter("clients_forgotten", "Clients beyond the limit.")
        self.rpcs = counter("rpcs", "Finished calls.", "method", "code")
        self.rpc_s = histogram("rpc_seconds", "Seconds of unary calls.", _RPC_BUCKETS_S, "method")

    def read_from(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Let a gauge be read when it is scraped, so that nothing is counted twice."""
        gauge.set_function(read)

    def render(self) -> bytes:
        """Give the text exposition of all metrics."""
        return generate_latest(self.registry)
