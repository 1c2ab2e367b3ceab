"""Connecting a command to a sidecar, with failures as `CommandError`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from estimator.cli.terminal import CommandError

if TYPE_CHECKING:  # grpc only when a command runs
    from estimator.client import EstimatorClient


@contextmanager
def connect(target: str, timeout_s: float) -> "Iterator[EstimatorClient]":
    """Open a client for the block; its errors end the command with exit code 1.

    Parameters
    ----------
    target : str
        ``unix:///path`` or ``host:port``.
    timeout_s : float
        Deadline of each call, seconds.

    Yields
    ------
    EstimatorClient

    Raises
    ------
    CommandError
        For any `ClientError` of the block.
    """
    from estimator.client import ClientError, EstimatorClient  # noqa: PLC0415 # grpc

    try:
        with EstimatorClient(target, timeout_s=timeout_s) as client:
            yield client
    except ClientError as error:
        raise CommandError(error.message) from error
