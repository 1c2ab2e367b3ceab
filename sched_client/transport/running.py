"""Tells the sidecar what runs while κ of it is young: the first to finish are the shortest.

On the reporter's thread; the engine's thread does nothing for it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import RunningReport, RunningSource
from sched_client.model import YOUNG_SAMPLES, KappaEntry, Key
from sched_client.transport.convert import KIND_MESSAGES, label
from sched_client.transport.pacing import Pacer

# The API's limit.
MAX_RUNNING: Final = 256
_TEACHING: Final = ("transcription", "text")


class RunningWriter:
    """Builds the messages of what runs.

    Parameters
    ----------
    hash_id : callable
        Makes of an engine's request id what its completion will bear.
    pacer : Pacer
        Gives the interpreter's lock away in between.
    """

    def __init__(self, hash_id: Callable[[str], str], pacer: Pacer) -> None:
        self._hash_id = hash_id
        self._pacer = pacer

    def write(
        self, source: RunningSource, kappas: Mapping[Key, KappaEntry]
    ) -> list[pb.RunningRequest]:
        """Give what runs of young keys.

        Parameters
        ----------
        source : RunningSource
            The engine's requests.
        kappas : Mapping of Key to KappaEntry
            What the client knows: a key that is not there has its first completions before it.
        """
        young: dict[Key, bool] = {}
        messages: list[pb.RunningRequest] = []
        for report in source.read(MAX_RUNNING):
            features = report.features
            if features.kind in _TEACHING:
                key = features.key
                if key not in young:
                    entry = kappas.get(key)
                    young[key] = entry is None or entry.sample_count < YOUNG_SAMPLES
                if young[key]:
                    messages.append(self._message(report))
            self._pacer.step()
        return messages

    def _message(self, report: RunningReport) -> pb.RunningRequest:
        features = report.features
        message = pb.RunningRequest(
            request_hash=self._hash_id(report.request_id),
            model_id=label(features.model),
            task=label(features.task),
            language=label(features.language),
            kind=KIND_MESSAGES[features.kind],
            audio_seconds=features.audio_s,
            prompt_token_count=features.prompt_tokens,
            output_token_count=report.output_tokens,
        )
        if features.timestamps is not None:
            message.timestamps = features.timestamps
        return message
