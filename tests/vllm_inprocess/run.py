"""Run the tests of this folder with vLLM's interpreter: ``python -m tests.vllm_inprocess.run``.

The environment variable ``KAPPAD_TEST_VLLM`` names the version. pytest is not installed into
vLLM's environment: it goes into a folder of its own, which only this run sees.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from estimator.demo.environment import DEFAULT_VERSION, build, unsupported_reason

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_TOOLS: Final = _REPOSITORY / ".cache" / "vllm-test-tools"
_REQUIREMENTS: Final = ("pytest>=9", "pytest-timeout>=2.3", "hypothesis>=6.130")


def install_tools(python: Path) -> None:
    """Install pytest beside vLLM's environment, once for each interpreter version."""
    stamp = _TOOLS / "stamp"
    wanted = "\n".join((*_REQUIREMENTS, os.fspath(python.resolve())))
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    command = [os.fspath(python), "-m", "pip", "install", "--quiet", "--upgrade"]
    subprocess.run([*command, "--target", os.fspath(_TOOLS), *_REQUIREMENTS], check=True)
    stamp.write_text(wanted, encoding="utf-8")


def main() -> int:
    """Run the tests.

    Returns
    -------
    int
        pytest's exit status; 0 where this platform cannot run vLLM, after saying why.
    """
    reason = unsupported_reason()
    if reason is not None:
        print(f"skipped tests/vllm_inprocess: {reason}")
        return 0
    python = build(os.environ.get("KAPPAD_TEST_VLLM") or DEFAULT_VERSION)
    install_tools(python)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((os.fspath(_TOOLS), os.fspath(_REPOSITORY))),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    command = [os.fspath(python), "-m", "pytest", "-c", "tests/vllm_inprocess/pytest.ini"]
    command += ["--rootdir", ".", "tests/vllm_inprocess"]
    return subprocess.run(
        [*command, *sys.argv[1:]], check=False, cwd=_REPOSITORY, env=environment
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
