"""Each import contract fails on a violation planted in a copy, so the check can fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLANTED = {
    "sidecar layers": ("estimator/core/planted.py", "import estimator.store.base"),
    "client layers": ("sched_client/policies/planted.py", "import sched_client.transport.link"),
    "the client never imports the sidecar": ("sched_client/planted.py", "import estimator.core"),
    "the sidecar sees only the client's model, estimates and policies": (
        "estimator/cli/planted.py",
        "import sched_client.transport.link",
    ),
    "the client's model, estimates and policies need the standard library only": (
        "sched_client/policies/planted.py",
        "import grpc",
    ),
    "the core is pure": ("estimator/core/planted.py", "import sqlite3"),
    "the twin knows no clock and no wire": ("estimator/replay/planted.py", "import time"),
    "generated types stay at the edges": (
        "estimator/runtime/planted.py",
        "import protos.kappad.estimator.v1.estimator_pb2",
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "clips")
    for name in ("estimator", "sched_client", "protos"):
        shutil.copytree(ROOT / name, target / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def verdict(folder: Path) -> str:
    """Run import-linter in the copy, whose folder it puts first on the path."""
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return result.stdout + result.stderr


def test_the_project_as_it_is_keeps_every_contract(copy: Path) -> None:
    output = verdict(copy)
    assert f"{len(PLANTED)} kept, 0 broken" in output


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_import_breaks_its_contract(copy: Path, contract: str) -> None:
    path, code = PLANTED[contract]
    planted = copy / path
    planted.write_text(f'"""Planted."""\n\n{code}\n', encoding="utf-8")
    try:
        assert f"{contract} BROKEN" in verdict(copy)
    finally:
        planted.unlink()
