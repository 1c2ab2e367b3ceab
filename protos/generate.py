"""Generate the Python code of the API, or prove that the code checked in is fresh.

Runs in the throw-away environment of the ``codegen`` group, from the repository's root: the
file's path is then an import path (``protos.kappad.estimator.v1``) and needs no rewriting.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "protos/kappad/estimator/v1/estimator.proto"


def generate(target: Path) -> list[Path]:
    """Write the four generated files below ``target`` and give their relative paths."""
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", "-I", ".",
            f"--python_out={target}", f"--pyi_out={target}",
            f"--grpc_python_out={target}", f"--mypy_grpc_out={target}", SOURCE,
        ],
        cwd=ROOT,
        check=True,
        env={"PATH": str(Path(sys.executable).parent)},
    )  # fmt: skip
    stem = SOURCE.removesuffix(".proto")
    return [
        Path(f"{stem}{end}") for end in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
    ]


def main() -> None:
    """Generate in place; with ``--check`` compare instead and fail on a difference."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        generate(ROOT)
        return
    with tempfile.TemporaryDirectory() as temporary:
        paths = generate(Path(temporary))
        stale = [
            str(path)
            for path in paths
            if not (ROOT / path).exists()
            or (ROOT / path).read_bytes() != (Path(temporary) / path).read_bytes()
        ]
    if stale:
        sys.exit(f"generated code is stale, run `make protos`: {', '.join(stale)}")


if __name__ == "__main__":
    main()
