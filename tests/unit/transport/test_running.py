"""What is told of what runs."""

from collections.abc import Iterator

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import RunningReport
from sched_client.model import YOUNG_SAMPLES, Features, KappaEntry, Key
from sched_client.transport.convert import CompletionWriter
from sched_client.transport.pacing import Pacer
from sched_client.transport.running import RunningWriter
from tests.support.scripted_sidecar import BOOT_ID, make_report

SPEECH = Features(model="m", task="transcribe", language="en", timestamps=False, audio_s=2.5)


class _Source:
    def __init__(self, *reports: RunningReport) -> None:
        self.reports = reports
        self.most = 0

    def read(self, most: int) -> Iterator[RunningReport]:
        self.most = most
        yield from self.reports


def _written(
    *reports: RunningReport, kappas: dict[Key, KappaEntry] | None = None
) -> list[pb.RunningRequest]:
    writer = RunningWriter(CompletionWriter(BOOT_ID).hash_id, Pacer(1.0, 0.0))
    source = _Source(*reports)
    messages = writer.write(source, kappas or {})
    assert source.most == 256
    return messages


def test_a_running_request_bears_its_completions_hash_and_nothing_of_its_id() -> None:
    (message,) = _written(RunningReport(SPEECH, 7, "patient-name"))
    completion = CompletionWriter(BOOT_ID).write(make_report(1, request_id="patient-name"))
    assert message.request_hash == completion.request_hash
    assert b"patient" not in message.SerializeToString()
    assert (message.model_id, message.task, message.language) == ("m", "transcribe", "en")
    assert message.HasField("timestamps")
    assert not message.timestamps
    assert (message.audio_seconds, message.output_token_count) == (2.5, 7)
    assert message.kind == pb.REQUEST_KIND_TRANSCRIPTION


def test_only_young_keys_are_told() -> None:
    kappas = {
        SPEECH.key: KappaEntry(kappa_tokens_per_s=3.0, sample_count=YOUNG_SAMPLES),
        SPEECH.key._replace(language="fr"): KappaEntry(
            kappa_tokens_per_s=3.0, sample_count=YOUNG_SAMPLES - 1
        ),
    }
    languages = ("en", "fr", "de")
    reports = [RunningReport(SPEECH._replace(language=one), 7, one) for one in languages]
    assert [message.language for message in _written(*reports, kappas=kappas)] == ["fr", "de"]


def test_what_teaches_nothing_is_not_told() -> None:
    reports = [
        RunningReport(SPEECH._replace(kind=kind), 7, kind)
        for kind in ("detection", "beam_step", "session")
    ]
    assert _written(*reports) == []


def test_names_that_the_api_would_refuse_are_left_out() -> None:
    (message,) = _written(RunningReport(SPEECH._replace(language="x" * 200), 7, "a"))
    assert message.language == ""
