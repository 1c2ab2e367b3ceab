"""``kappad export``: the stored completions as a trace, or what was learned as a seed."""

import gzip
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from estimator.cli.progress import Progress
from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    EXIT_USAGE,
    CommandError,
    Json,
    Target,
    Timeout,
    printable,
    say,
    say_json,
)
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc and numpy only when a command runs
    from estimator.client import EstimatorClient
    from estimator.core.observation import Completion


def export(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Its ending tells the format; - for standard output."),
    ],
    model: Annotated[
        bool, typer.Option("--model", help="Write what was learned, as a seed (.json).")
    ] = False,
    served_model: Annotated[
        str,
        typer.Option(metavar="M", help="With --model: only what concerns this served model."),
    ] = "",
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Write the stored completions as a trace, or with --model what was learned.

    A trace's name ends in .csv, .csv.gz, .jsonl or .jsonl.gz; the file appears whole or not at
    all. Standard output (-) gets CSV, or with --json JSON Lines.
    Learning from an export in a fresh sidecar gives the same κ.
    With --model FILE (.json, or -), `kappad serve --seed FILE` starts another sidecar from it.
    """
    if model:
        _export_seed(file, served_model, target=target, timeout_s=timeout_s, as_json=as_json)
        return
    if served_model:
        raise CommandError("--served-model goes with --model; a trace holds all", EXIT_USAGE)
    from estimator.traces import TraceError, format_of, write_rows  # noqa: PLC0415 # light start

    with connect(target, timeout_s) as client:
        if file == "-":
            rows = _rows(client, _origin_s(client), None)
            write_rows(rows, sys.stdout, "jsonl" if as_json else "csv")
            return
        path = Path(file)
        try:
            form = format_of(file)
        except TraceError as error:
            raise CommandError(str(error), EXIT_USAGE) from error
        with _replacing(path) as out, Progress(f"exporting {printable(path.name)}") as progress:
            count = write_rows(_rows(client, _origin_s(client), progress), out, form)
    if as_json:
        say_json({"file": file, "row_count": count})
    else:
        say(f"{printable(file)}: {count:,} completions")


def _export_seed(
    file: str, served_model: str, *, target: str, timeout_s: float, as_json: bool
) -> None:
    from estimator.runtime.seed import write_seed  # noqa: PLC0415 # light start

    path = Path(file)
    if file != "-" and path.suffix.lower() != ".json":
        text = f"{printable(file)}: a seed is JSON; name it .json, or - for standard output"
        raise CommandError(text, EXIT_USAGE)
    with connect(target, timeout_s) as client:
        state = client.export_state(served_model)

    def write(out: IO[str]) -> None:
        write_seed(
            out,
            state.text,
            created_s=state.created_s,
            kappad_version=state.server_version,
            model=served_model,
            learned_count=state.learned,
            key_count=state.keys,
        )

    if file == "-":
        write(sys.stdout)
        return
    with _replacing(path) as out:
        write(out)
    if as_json:
        say_json(
            {
                "file": file,
                "schema": state.schema,
                "learned_count": state.learned,
                "key_count": state.keys,
                "model": served_model,
                "kappad_version": state.server_version,
                "created_unix_s": state.created_s,
                "size_bytes": path.stat().st_size,
            }
        )
    else:
        keys = "key" if state.keys == 1 else "keys"
        say(f"{printable(file)}: {state.keys:,} {keys} from {state.learned:,} completions")


def _origin_s(client: "EstimatorClient") -> float:
    # Completions come in the order in which they were learned, the short ones first: who arrived
    # first is known only at the end. Reading twice keeps memory flat however long the history is.
    return min(map(_arrival_s, client.completions()), default=0.0)


def _rows(
    client: "EstimatorClient", origin_s: float, progress: Progress | None
) -> Iterator[dict[str, object]]:
    from estimator.traces import cells_of  # noqa: PLC0415 # light start

    for n, one in enumerate(client.completions(), start=1):
        # Rows whose arrival lies before the origin came between the two readings.
        arrival_s = round(max(_arrival_s(one) - origin_s, 0.0), 6)
        if progress is not None:
            progress.update(n)
        yield cells_of(one, arrival_s=arrival_s)


def _arrival_s(completion: "Completion") -> float:
    return completion.finished_s - completion.service_s - completion.wait_s


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """Open a file beside ``path`` that takes its place once it is complete."""
    if path.exists() and not path.is_file():
        # Replacing a device or a pipe by a file is never what was meant.
        raise CommandError(f"{path}: is no regular file; use - for standard output")
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent
        )
        with os.fdopen(descriptor, "wb") as raw:
            binary = (
                # No time stamp: the same history gives the same bytes.
                gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0)
                if path.name.lower().endswith(".gz")
                else raw
            )
            with io.TextIOWrapper(binary, "utf-8", newline="", write_through=False) as text:
                yield text
                text.flush()
                if binary is not raw:
                    binary.close()
                raw.flush()
                os.fsync(raw.fileno())
        Path(temporary).chmod(0o644 & ~_umask())
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(
            f"{path}: cannot be written: {reason}; check folder and space"
        ) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
