"""``kappad replay`` in this process, by its own entry point, and a small trace for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from estimator.cli.main import main

# Few requests for few slots.
SMALL = ("--requests", "120", "--engine", "cpu-whisper-base")

Capture = pytest.CaptureFixture[str]


def replayed(arguments: list[str], capsys: Capture, *, code: int = 0) -> tuple[str, str]:
    """Run the command through its own entry point, in this process."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *arguments])
    captured = capsys.readouterr()
    assert ended.value.code == code, captured
    return captured.out, captured.err


def document_of(arguments: list[str], capsys: Capture, *, code: int = 0) -> dict[str, Any]:
    out, _ = replayed([*arguments, "--json"], capsys, code=code)
    document: dict[str, Any] = json.loads(out)
    return document


def told(arguments: list[str], capsys: Capture, *, code: int) -> str:
    """Run what must fail: nothing on standard output, one line on standard error."""
    out, err = replayed(arguments, capsys, code=code)
    assert out == ""
    assert err.startswith("kappad: ")
    assert err.count("\n") == 1, err
    return err


def write_trace(tmp_path: Path) -> str:
    """Write 200 requests of ten lengths, five a second."""
    rows = (f"{i / 5},{1 + i % 9},{4 * (1 + i % 9) + i % 3},en" for i in range(200))
    header = "arrival_s,audio_s,output_tokens,language\n"
    path = tmp_path / "speech.csv"
    path.write_text(header + "\n".join(rows) + "\n", encoding="utf-8")
    return str(path)
