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
    *reports: RunningReport, kappas: dict[Key, KappaEntry] | None = None, due: bool = True
) -> list[pb.RunningRequest]:
    writer = RunningWriter(CompletionWriter(BOOT_ID).hash_id, Pacer(1.0, 0.0))
    source = _Source(*reports)
    messages = writer.write(source, kappas or {}, offset_s=1e9, due=due)
    assert source.most == 256
    return messages


def test_a_running_request_bears_its_completions_hash_and_nothing_of_its_id() -> None:
    (message,) = _written(RunningReport(SPEECH, 7, "patient-name", 50.0))
    completion = CompletionWriter(BOOT_ID).write(make_report(1, request_id="patient-name"))
    assert message.request_hash == completion.request_hash
    assert b"patient" not in message.SerializeToString()
    assert (message.model_id, message.task, message.language) == ("m", "transcribe", "en")
    assert message.HasField("timestamps")
    assert not message.timestamps
    assert (message.audio_seconds, message.output_token_count) == (2.5, 7)
    assert message.kind == pb.REQUEST_KIND_TRANSCRIPTION
    assert message.start_unix_seconds == 1e9 + 50.0


def test_between_times_what_runs_is_told_only_with_a_young_key() -> None:
    counts = {"en": YOUNG_SAMPLES, "fr": YOUNG_SAMPLES - 1}
    kappas = {
        SPEECH.key._replace(language=name): KappaEntry(kappa_tokens_per_s=3.0, sample_count=count)
        for name, count in counts.items()
    }
    en, fr, de = (
        RunningReport(SPEECH._replace(language=name), 7, name) for name in ("en", "fr", "de")
    )
    assert len(_written(en, en, kappas=kappas, due=True)) == 2
    assert _written(en, en, kappas=kappas, due=False) == []
    assert len(_written(en, fr, kappas=kappas, due=False)) == 2
    assert len(_written(en, de, kappas=kappas, due=False)) == 2


def test_text_is_told_by_its_type_and_young_while_prompts_of_its_size_are() -> None:
    text = Features(model="m", task="text", kind="text", prompt_tokens=1024)
    report = RunningReport(text, 7, "a", request_type="chat")
    known = KappaEntry(kappa_tokens_per_s=0.0, sample_count=YOUNG_SAMPLES)
    (message,) = _written(report, kappas={Key("m", "text"): known}, due=False)
    assert (message.task, message.language, message.prompt_token_count) == ("text", "chat", 1024)
    assert _written(report, kappas={Key("m", "text", "/21"): known}, due=False) == []


def test_what_teaches_nothing_is_not_told() -> None:
    reports = [
        RunningReport(SPEECH._replace(kind=kind), 7, kind)
        for kind in ("detection", "beam_step", "session")
    ]
    assert _written(*reports) == []


def test_names_that_the_api_would_refuse_are_left_out() -> None:
    (message,) = _written(RunningReport(SPEECH._replace(language="x" * 200), 7, "a"))
    assert message.language == ""
