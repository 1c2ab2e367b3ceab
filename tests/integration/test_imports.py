"""What each part may import, proved in interpreters where the rest is absent."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The meta path answers before any finder; a blocked package fails as if it were not installed.
BLOCK = """
import sys
blocked = set(sys.argv[1].split(","))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by the test)", name=name)
        return None
sys.meta_path.insert(0, Absent())
"""
STDLIB = sys.stdlib_module_names
HEAVY = ("grpc", "google", "protos", "numpy", "river", "sklearn", "torch", "vllm", "estimator")


def _run(body: str, blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK + body, ",".join(blocked)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _modules_of(package: str) -> str:
    """Give code that imports every module of a package."""
    return (
        "import importlib, pkgutil\n"
        f"package = importlib.import_module({package!r})\n"
        f"for module in pkgutil.walk_packages(package.__path__, {package + '.'!r}):\n"
        "    importlib.import_module(module.name)\n"
    )


def test_the_sidecar_listens_before_it_loads_the_detector() -> None:
    # A second, most of it for scipy; `estimator.core.drift.load_detector` says when it is loaded.
    done = _run(
        "import estimator.service.server\n"
        "from estimator.core.pipeline import Pipeline\n"
        "Pipeline().take_changes()\n",
        ("scipy",),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", HEAVY[:-1])
def test_the_block_itself_works(name: str) -> None:
    done = _run(f"import {name}", HEAVY)
    assert done.returncode != 0
    assert "blocked by the test" in done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "import sched_client.model, sched_client.completion, sched_client.options",
        _modules_of("sched_client.policies"),
        "import sched_client.transport.link",
    ],
    ids=["model", "policies", "link"],
)
def test_the_clients_core_needs_the_standard_library_only(body: str) -> None:
    done = _run(body, HEAVY)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["sched_client", "sched_client.vllm"])
def test_the_clients_packages_import_nothing_by_themselves(package: str) -> None:
    body = (
        f"before = set(sys.modules)\nimport {package}\nprint(*sorted(set(sys.modules) - before))\n"
    )
    done = _run(body, HEAVY)
    assert done.returncode == 0, done.stderr
    new = {name for name in done.stdout.split() if name.partition(".")[0] not in STDLIB}
    assert new <= {"sched_client", package}


def test_the_sidecars_core_needs_no_grpc_and_no_messages() -> None:
    done = _run(_modules_of("estimator.core"), ("grpc", "google", "protos", "vllm", "torch"))
    assert done.returncode == 0, done.stderr


def test_a_link_loads_grpc_only_once_it_is_started() -> None:
    body = """
from sched_client.options import ClientOptions
from sched_client.transport.link import Identity, Link
link = Link(ClientOptions(), Identity("c", "m"), boot_id="b")
assert "grpc" not in sys.modules and "google" not in sys.modules
"""
    done = _run(body, ("vllm",))
    assert done.returncode == 0, done.stderr


def test_the_transport_needs_nothing_of_the_sidecar_nor_of_vllm() -> None:
    blocked = tuple(set(HEAVY) - {"grpc", "google", "protos"})
    done = _run(_modules_of("sched_client.transport"), blocked)
    assert done.returncode == 0, done.stderr
