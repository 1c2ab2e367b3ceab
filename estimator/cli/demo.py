"""``kappad demo``: the whole loop in one command."""

from typing import Annotated

import typer

from estimator.cli.terminal import Json


def demo(
    vllm_python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Interpreter of an environment with vLLM. Default: one that is built here.",
            show_default=False,
        ),
    ] = None,
    requests: Annotated[int, typer.Option(metavar="N", min=4, help="Requests of each run.")] = 60,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Decides the clips' order and arrivals.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Run the whole loop: vLLM, FCFS, then kappad.

    Serves Whisper with vLLM on real clips, first come first served and then ordered by kappad.
    Takes some minutes. Where vLLM cannot run, it says what is missing and runs the loop without.
    """
    from estimator.demo.run import main  # noqa: PLC0415 # light start

    code = main(vllm_python=vllm_python, json=as_json, requests=requests, seed=seed)
    if code != 0:
        raise typer.Exit(code)
