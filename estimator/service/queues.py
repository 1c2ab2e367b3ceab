"""The queues of each model as the API shows them."""

from collections.abc import Sequence
from itertools import pairwise

from estimator.convert.scalars import int32
from estimator.core.pipeline import Pipeline
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import SINGLE_QUEUE, Partition

__all__ = ["model_queues", "partition_statuses"]


def partition_statuses(pipeline: Pipeline) -> list[pb.PartitionStatus]:
    """Say how each model's partition stands, by model."""
    partitions = pipeline.partitions()
    return [
        _status(pipeline, model, partitions.get(model, SINGLE_QUEUE))
        for model in sorted(pipeline.queue_table.models())
    ]


def model_queues(pipeline: Pipeline, models: Sequence[str]) -> list[pb.ModelQueues]:
    """Give the queues of some models, and the work that they were found in."""
    partitions = pipeline.partitions()
    return [_model(pipeline, model, partitions.get(model, SINGLE_QUEUE)) for model in models]


def _model(pipeline: Pipeline, model: str, partition: Partition) -> pb.ModelQueues:
    status = _status(pipeline, model, partition)
    edges_s, counts = pipeline.work_histogram(model)
    return pb.ModelQueues(
        status=status,
        queues=_queues(partition, status.sample_count),
        histogram_edge_seconds=edges_s,
        histogram_counts=counts,
    )


def _status(pipeline: Pipeline, model: str, partition: Partition) -> pb.PartitionStatus:
    status = pipeline.queue_table.status(model)
    return pb.PartitionStatus(
        model_id=model,
        queue_count=len(partition.queue_ids),
        detail=status.text,
        completion_count=status.completions,
        sample_count=int32(status.points),
        fit_count=status.fits,
        revision_count=status.revisions,
    )


def _queues(partition: Partition, points: int) -> list[pb.Queue]:
    bounds = pairwise((None, *partition.boundaries_s, None))
    queues = []
    for index, (queue_id, (lower, upper)) in enumerate(
        zip(partition.queue_ids, bounds, strict=True)
    ):
        share = _at(partition.shares, index)
        of_sample = 1.0 if len(partition.queue_ids) == 1 else share or 0.0
        queues.append(
            pb.Queue(
                queue_id=queue_id,
                lower_bound_seconds=lower,
                upper_bound_seconds=upper,
                least_seconds=_at(partition.lowers_s, index),
                most_seconds=_at(partition.uppers_s, index),
                mean_seconds=_at(partition.means_s, index),
                share_ratio=share,
                sample_count=int32(round(of_sample * points)),
            )
        )
    return queues


def _at(values: Sequence[float], index: int) -> float | None:
    return values[index] if values else None
