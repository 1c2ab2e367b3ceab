"""The options of ``kappad replay``, and how their texts are read."""

import math
from pathlib import Path
from typing import Annotated

import typer

from sched_client.policies import POLICY_NAMES

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Traces, in CSV or JSON Lines.", show_default=False),
]
Traces = Annotated[
    list[Path] | None,
    typer.Option(
        "--trace", metavar="FILE", help="A trace; may be given again, or with more files."
    ),
]
WorkloadName = Annotated[
    str, typer.Option("--workload", metavar="uniform-5-30", help="A synthetic mix, no files.")
]
Mix = Annotated[
    str,
    typer.Option(
        metavar="W1,W2", help="Mix the files by these weights; else one follows another."
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Requests of a run. Default: as many as rows."),
]
Resample = Annotated[
    bool, typer.Option("--resample", help="Draw requests with replacement, whatever their number.")
]
LanguageHidden = Annotated[
    bool, typer.Option("--language-hidden/--language-known", help="Forget the rows' languages.")
]
Strict = Annotated[bool, typer.Option("--strict/--lenient", help="Stop at a bad row.")]
ArrivalsName = Annotated[
    str,
    typer.Option(
        "--arrivals", metavar="trace|poisson|gamma|diurnal|bursts", help="How they come."
    ),
]
GammaCv = Annotated[
    float, typer.Option(metavar="CV", help="gamma: coefficient of variation of the gaps.")
]
DiurnalAmplitude = Annotated[
    float, typer.Option(metavar="A", help="diurnal: swing of the rate, a share of its mean.")
]
DiurnalPeriod = Annotated[
    float, typer.Option("--diurnal-period-s", metavar="S", help="diurnal: from peak to peak.")
]
BurstCycle = Annotated[
    float,
    typer.Option(
        "--burst-cycle-s",
        metavar="S",
        help="bursts: one cycle, its last third at 13/9 of the rate, the rest at 7/9.",
    ),
]
Rate = Annotated[
    str, typer.Option("--rate", metavar="R[,R]", help="Requests a second, one or several.")
]
Load = Annotated[
    str,
    typer.Option(
        "--load",
        metavar="X[,X]",
        help="Rates over the capacity measured in the twin.",
    ),
]
PolicyNames = Annotated[
    str,
    typer.Option(
        "--policy", metavar="P[,P]", help=f"{', '.join(POLICY_NAMES)}; fcfs always runs."
    ),
]
Phi = Annotated[float, typer.Option(help="Guard: share of the work served, in [0, 1).")]
BurstRequests = Annotated[
    float, typer.Option(help="Guard: overtaking allowed from the start, in mean requests.")
]
ReorderAbove = Annotated[
    int, typer.Option(help="Requests up to which they go in order of arrival, 0 to 64.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting, such as between=ratio; repeatable."
    ),
]
NoGuard = Annotated[
    bool, typer.Option("--no-guard", help="Let anyone be overtaken for ever, however few wait.")
]
OrderByName = Annotated[
    str, typer.Option("--order-by", metavar="service|tokens", help="What work is counted in.")
]
EstimatesName = Annotated[
    str,
    typer.Option(
        "--estimates",
        metavar="learned|duration|true",
        help="Learned as in production, one fixed rate, or the true lengths.",
    ),
]
Warm = Annotated[
    bool, typer.Option("--warm/--cold", help="Learn from other draws of the workload first.")
]
SeedState = Annotated[
    Path | None,
    typer.Option(
        "--seed-state", metavar="FILE", help="Begin with what `kappad export --model` wrote."
    ),
]
Engine = Annotated[
    str, typer.Option(metavar="PROFILE", help="A profile's name, or a file with one.")
]
Seeds = Annotated[
    int, typer.Option(metavar="K", min=1, max=1000, help="Runs of each policy and rate.")
]
Seed = Annotated[int, typer.Option(metavar="S", min=0, help="The first run's seed.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the runs into FILE.svg or FILE.html."),
]
Capacity = Annotated[
    str,
    typer.Option(
        "--capacity",
        metavar="LIMIT",
        help='Such as "e2e_p90<2s": the rate that a pod carries within it, instead of runs.',
    ),
]


def numbers(text: str, option: str, *, unique: bool = True) -> tuple[float, ...]:
    """Read numbers above 0 that commas separate, none from an empty text.

    Raises
    ------
    typer.BadParameter
        Names the option and the part that is no such number.

    Examples
    --------
    >>> numbers("10,15", "--rate")
    (10.0, 15.0)
    """
    if not text.strip():
        return ()
    found = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            number = math.nan
        if not 0.0 < number < math.inf:
            raise typer.BadParameter(
                f"{part.strip()!r} is no number above 0; give such as 10 or 10,15,20",
                param_hint=option,
            )
        found.append(number)
    return tuple(dict.fromkeys(found) if unique else found)


def one_of(text: str, choices: tuple[str, ...], option: str) -> str:
    """Give the text back if it is one of the choices.

    Raises
    ------
    typer.BadParameter
        Lists the choices.
    """
    if text not in choices:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(choices)}", param_hint=option)
    return text


def several_of(text: str, choices: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Read names that commas separate, each one of the choices."""
    return tuple(one_of(part.strip(), choices, option) for part in text.split(","))
