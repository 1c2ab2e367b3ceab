"""Tell whether kappad fits the vLLM in this environment, attribute by attribute.

Run ``python -m sched_client.vllm.doctor [--json]`` with vLLM's interpreter. Exit code 0: it fits.
1: it does not, and vLLM would schedule as without kappad.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence

from sched_client.options import read_options
from sched_client.vllm.shim import Finding, engine_version, examine, examine_preemption


def diagnose() -> tuple[list[Finding], list[str]]:
    """Examine vLLM, what the client imports, and the options in the environment.

    Returns
    -------
    findings : list of Finding
        Those that decide.
    remarks : list of str
        What is worth knowing and decides nothing.
    """
    findings = examine()
    remarks = [
        f"{name} is not installed: vLLM would run, without a sidecar"
        for name in ("grpc", "google.protobuf")
        if not _installed(name)
    ]
    remarks += read_options().problems
    return findings, remarks


def _checks(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [{**finding._asdict(), "ok": not finding.problem} for finding in findings]


def _print(findings: Sequence[Finding]) -> None:
    for finding in findings:
        state = f"NO   {finding.problem}:" if finding.problem else "ok  "
        print(f"{state} {finding.name} ({finding.why})")


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the diagnosis.

    Parameters
    ----------
    arguments : sequence of str, optional
        Defaults to the command line's.

    Returns
    -------
    int
        0 if kappad fits, else 1.
    """
    parser = argparse.ArgumentParser(prog="sched_client.vllm.doctor", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args(arguments).json
    findings, remarks = diagnose()
    fits = not any(finding.problem for finding in findings)
    preemption = examine_preemption()
    version = engine_version()
    if as_json:
        answer = {
            "vllm_version": version,
            "fits": fits,
            "checks": _checks(findings),
            "preemption": _checks(preemption),
            "remarks": remarks,
        }
        print(json.dumps(answer))
    elif not _installed("vllm"):
        print(f"vLLM is not installed for {sys.executable}; run this with vLLM's interpreter")
    else:
        _print(findings)
        print("for preemption = least_lost; without one of these it is vLLM's own:")
        _print(preemption)
        for remark in remarks:
            print(f"note {remark}")
        verdict = "kappad fits" if fits else "kappad does not fit; vLLM schedules as without it:"
        print(f"{verdict} vLLM {version or '(not installed)'}")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
