"""Tells the sidecar what runs: those that finish first are the shortest.

On the reporter's thread; the engine's thread does nothing for it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import RunningReport, RunningSource
from sched_client.model import YOUNG_SAMPLES, Features, KappaEntry, Key
from sched_client.text_class import text_class
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
        self,
        source: RunningSource,
        kappas: Mapping[Key, KappaEntry],
        *,
        offset_s: float,
        due: bool,
    ) -> list[pb.RunningRequest]:
        """Give what runs.

        Parameters
        ----------
        source : RunningSource
            The engine's requests.
        kappas : Mapping of Key to KappaEntry
            What the client knows: a key that is not there has its first completions before it.
        offset_s : float
            Unix time less monotonic time.
        due : bool
            Whether it is time for all; else they are given only if one is of a young key.
        """
        reports = []
        for report in source.read(MAX_RUNNING):
            if report.features.kind in _TEACHING:
                reports.append(report)
            self._pacer.step()
        if not (due or self._is_one_young(reports, kappas)):
            return []
        messages = []
        for report in reports:
            messages.append(self._message(report, offset_s))
            self._pacer.step()
        return messages

    def _is_one_young(
        self, reports: list[RunningReport], kappas: Mapping[Key, KappaEntry]
    ) -> bool:
        known: set[Key] = set()
        for report in reports:
            key = _key(report.features)
            if key not in known:
                known.add(key)
                entry = kappas.get(key)
                if entry is None or entry.sample_count < YOUNG_SAMPLES:
                    return True
            self._pacer.step()
        return False

    def _message(self, report: RunningReport, offset_s: float) -> pb.RunningRequest:
        features = report.features
        # As its completion will be filed by.
        name = report.request_type if features.kind == "text" else features.language
        message = pb.RunningRequest(
            request_hash=self._hash_id(report.request_id),
            model_id=label(features.model),
            task=label(features.task),
            language=label(name),
            kind=KIND_MESSAGES[features.kind],
            audio_seconds=features.audio_s,
            prompt_token_count=features.prompt_tokens,
            output_token_count=report.output_tokens,
            start_unix_seconds=report.started_s + offset_s if report.started_s else 0.0,
        )
        if features.timestamps is not None:
            message.timestamps = features.timestamps
        return message


def _key(features: Features) -> Key:
    """Give the key whose youth counts; of text without the type, which callers may invent."""
    if features.kind == "text":
        return features.key._replace(language=text_class("", features.prompt_tokens))
    return features.key
