"""``kappad predict``: what a request will cost, asked of a running sidecar."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    EXIT_PARTIAL,
    CommandError,
    Json,
    Target,
    Timeout,
    printable,
    say_json,
    say_table,
    warn,
)
from sched_client.model import DEFAULT_MODEL, Estimate, Features
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc only when a command runs
    from estimator.client import EstimatorClient


@dataclass(frozen=True, slots=True)
class _Subject:
    """One file, or one length given on the command line."""

    file: str | None
    duration_s: float
    pieces_s: tuple[float, ...]
    warnings: tuple[str, ...] = ()


def predict(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="More audio files.", show_default=False),
    ] = None,
    audio: Annotated[
        list[str] | None,
        typer.Option(
            "--audio",
            metavar="FILE",
            help="An audio file; may be given again, or with more files.",
        ),
    ] = None,
    duration: Annotated[
        list[float] | None,
        typer.Option("--duration", metavar="S", help="Seconds of audio; may be given again."),
    ] = None,
    language: Annotated[str, typer.Option(metavar="L", help="Whisper's code, such as en.")] = "",
    task: Annotated[
        str, typer.Option(metavar="T", help="transcribe or translate.")
    ] = "transcribe",
    model: Annotated[
        str,
        typer.Option(
            metavar="M", help="Served model. Default: the only one that the sidecar knows."
        ),
    ] = "",
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Estimate tokens and seconds of audio files or lengths.

    Audio over 30 s becomes several engine requests, as in vLLM; their estimates are added. A
    file whose length cannot be told gets one line on standard error and exit code 3, while the
    others are answered.
    """
    names = [*(audio or []), *(files or [])]
    if not names and not duration:
        raise typer.BadParameter("give --audio FILE or --duration SECONDS.")
    lengths = [_Subject(None, one, _split(one)) for one in duration or []]
    subjects, errors = _read_files(names)
    subjects += lengths
    for subject in subjects:
        for text in subject.warnings:
            warn(f"warning: {text}")
    for error in errors:
        warn(error["message"])
    estimates: list[dict[str, object]] = []
    if subjects:
        with connect(target, timeout_s) as client:
            name = model or _only_model(client)
            estimates = _ask(client, subjects, model=name, task=task, language=language)
    if as_json:
        say_json({"estimates": estimates, "errors": errors})
    elif estimates:
        _show(estimates)
    if errors:
        raise typer.Exit(EXIT_PARTIAL)


def _split(duration_s: float) -> tuple[float, ...]:
    from estimator.core.observation import MAX_AUDIO_S  # noqa: PLC0415 # light start

    if not 0.0 < duration_s <= MAX_AUDIO_S:
        raise typer.BadParameter(
            f"--duration is {duration_s:g}, must be over 0 and at most {MAX_AUDIO_S:g} seconds."
        )
    from estimator.cli.audio import split_length  # noqa: PLC0415 # loads numpy

    return split_length(duration_s)


def _read_files(names: Sequence[str]) -> tuple[list[_Subject], list[dict[str, str]]]:
    subjects, errors = [], []
    if names:
        try:
            from estimator.cli.audio import AudioError, read_length  # noqa: PLC0415 # loads numpy
        except (ImportError, OSError) as error:  # OSError: soundfile without libsndfile
            text = f"soundfile cannot be loaded: {error}"
            raise CommandError(f"{text}; install kappad[sidecar], or use --duration") from error
        for name in names:
            try:
                length = read_length(name)
            except AudioError as error:
                errors.append({"file": name, "message": str(error)})
                continue
            subjects.append(_Subject(name, length.duration_s, length.pieces_s, length.warnings))
    return subjects, errors


def _only_model(client: "EstimatorClient") -> str:
    """Give the model that the sidecar has learned, if there is one alone."""
    status = client.status()
    models = {name for name, _ in status.services} | {one.model for one in status.clients}
    models.discard("")
    return models.pop() if len(models) == 1 else DEFAULT_MODEL


def _ask(
    client: "EstimatorClient",
    subjects: Sequence[_Subject],
    *,
    model: str,
    task: str,
    language: str,
) -> list[dict[str, object]]:
    inputs = [
        Features(model=model, task=task, language=language, audio_s=seconds)
        for subject in subjects
        for seconds in subject.pieces_s
    ]
    answers = iter(client.predict(inputs).estimates)
    rows = []
    for subject in subjects:
        pieces = [next(answers) for _ in subject.pieces_s]
        rows.append(_sum(subject, pieces, Features(model=model, task=task, language=language)))
    return rows


def _sum(subject: _Subject, pieces: Sequence[Estimate], asked: Features) -> dict[str, object]:
    # Quantiles are added as well, which is exact for pieces that vary together (one speaker) and
    # too wide for independent ones.
    longest = max(pieces, key=lambda one: one.service_s)
    return {
        "file": subject.file,
        "source": pieces[0].source,
        "duration_s": round(subject.duration_s, 6),
        "pieces": len(pieces),
        "tokens": sum(one.tokens for one in pieces),
        "tokens_p50": sum(one.tokens_p50 for one in pieces),
        "tokens_p90": sum(one.tokens_p90 for one in pieces),
        "tokens_p99": sum(one.tokens_p99 for one in pieces),
        "service_s": sum(one.service_s for one in pieces),
        "queue_id": longest.queue_id,
        "snapshot_version": pieces[0].snapshot_version,
        "model": asked.model,
        "task": asked.task,
        "language": asked.language,
        "warnings": list(subject.warnings),
    }


def _show(estimates: Sequence[dict[str, object]]) -> None:
    columns = ("duration_s", "pieces", "tokens", "tokens_p50", "tokens_p90", "tokens_p99",
               "service_s", "queue_id", "source")  # fmt: skip
    header = ("audio", "s", "pieces", "tokens", "p50", "p90", "p99", "service s", "queue", "from")
    rows = [
        [printable(str(one["file"])) if one["file"] else "(length)", *(one[c] for c in columns)]
        for one in estimates
    ]
    say_table(header, rows)
