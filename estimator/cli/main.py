"""The ``kappad`` command: registers the commands and turns every failure into one line.

Commands import what they need when they run, so that ``--help`` needs neither grpc nor river.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from estimator.cli import (
    calibrate,
    demo,
    drift,
    evaluate,
    explain,
    export,
    kappa,
    learn,
    mode,
    partition,
    predict,
    replay,
    serve,
    status,
)
from estimator.cli.missing import is_ours, remedy
from estimator.cli.terminal import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CommandError,
    warn,
)

_EPILOG: Final = (
    "Exit codes: 0 done; 1 the sidecar cannot be reached or refuses, or a file cannot be written; "
    "2 wrong usage; 3 some inputs were bad, the others were answered; 130 interrupted."
)
# typer exports only a child of it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="kappad",
    help="kappad: learns how much work each speech request is, and orders vLLM's queue by it.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_MODULES: Final = (
    serve, predict, status, kappa, drift, partition, explain, learn, evaluate, replay, calibrate,
    export, demo,
)  # fmt: skip
for _module in _MODULES:
    app.command()(getattr(_module, _module.__name__.rsplit(".", 1)[-1]))
app.add_typer(mode.app, name="mode")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Learn how much work each speech request is, and order vLLM's queue by it."""
    if version:
        from importlib.metadata import version as version_of  # noqa: PLC0415 # light start

        print(version_of("kappad"))
        raise typer.Exit
    if context.invoked_subcommand is None:  # pragma: no cover # no_args_is_help comes first
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Defaults to the process's own.
    """
    # gRPC's C core writes its own lines about failed connections; ours says it once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # κ must not fail on an ASCII terminal
            stream.reconfigure(errors="backslashreplace")
    code = _run(list(sys.argv[1:] if arguments is None else arguments))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _leave_pipe()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        result = command.main(arguments, prog_name="kappad", standalone_mode=False)
    except _UsageError as error:
        return _usage(error)
    except CommandError as error:
        warn(error.message)
        return error.code
    except (KeyboardInterrupt, typer.Abort):  # typer itself answers the first with 130
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Outside its standalone mode, typer exits for a closed pipe only.
        return _leave_pipe()
    except Exception as error:
        if os.environ.get("KAPPAD_DEBUG"):
            raise
        return _unexpected(error)
    return result if isinstance(result, int) else 0


def _unexpected(error: Exception) -> int:
    if isinstance(error, ModuleNotFoundError) and not is_ours(error):
        warn(remedy(error))
        return EXIT_FAILED
    text = f"internal error: {type(error).__name__}: {error}"
    warn(f"{text}; this is a bug: run it with KAPPAD_DEBUG=1 and report the traceback")
    return EXIT_INTERNAL


def _usage(error: BaseException) -> int:
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "kappad"
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    if text.startswith("Usage:"):  # no arguments: the message is the help
        print(text, file=sys.stderr)
        return EXIT_USAGE
    text = " ".join(text.split())
    warn(f"{text}{'' if text.endswith('.') else '.'} See `{name} --help`.")
    return EXIT_USAGE


def _leave_pipe() -> int:
    """Keep the interpreter from failing on its last flush; nobody reads any more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return EXIT_BROKEN_PIPE


if __name__ == "__main__":
    main()
