"""The client's installation has the command, but not what the commands need."""

import subprocess
import sys

import pytest

from estimator.cli.missing import is_ours, remedy


def test_what_is_missing_is_named_with_the_remedy() -> None:
    text = remedy(ModuleNotFoundError(name="google.rpc"))
    assert text.startswith("google is not installed")
    assert "pip install 'kappad[sidecar]'" in text


def test_a_module_of_ours_is_a_bug() -> None:
    assert is_ours(ModuleNotFoundError(name="estimator.cli.nothing"))
    assert not is_ours(ModuleNotFoundError(name="typer"))


@pytest.mark.parametrize(
    ("module", "arguments"), [("typer", ["--help"]), ("soundfile", ["predict", "--audio", "x"])]
)
def test_a_command_without_its_packages_is_one_line(module: str, arguments: list[str]) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[1:] = {arguments!r}\n"
        "from estimator.cli.entry import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("kappad: ")
    assert module in line
    assert "kappad[sidecar]" in line
