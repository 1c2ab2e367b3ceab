"""Importing the package imports nothing heavy; without vLLM the name gives a clear error."""

import json
import subprocess
import sys

import pytest


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "module", ["", ".client", ".queue", ".features", ".mode", ".shim", ".doctor", ".tracker"]
)
def test_importing_loads_neither_vllm_nor_grpc_nor_torch(module: str) -> None:
    code = (
        f"import sys, sched_client.vllm{module}\n"
        "heavy = {'vllm', 'torch', 'numpy', 'grpc', 'google.protobuf'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = _run(code)
    assert result.returncode == 0, result.stderr


def test_without_vllm_the_class_is_a_clear_error() -> None:
    result = _run("import sched_client.vllm\nsched_client.vllm.KappadScheduler")
    assert result.returncode == 1
    assert "start it without --scheduler-cls" in result.stderr


def test_another_name_is_an_attribute_error() -> None:
    result = _run("import sched_client.vllm\nassert not hasattr(sched_client.vllm, 'Other')")
    assert result.returncode == 0, result.stderr


def test_the_doctor_says_no_where_there_is_no_vllm() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sched_client.vllm.doctor"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"vLLM is not installed for {sys.executable}")


def test_the_doctors_json_names_every_need_where_there_is_no_vllm() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sched_client.vllm.doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert not document["fits"]
    assert all("No module named 'vllm'" in one["problem"] for one in document["checks"])
