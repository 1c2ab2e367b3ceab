"""The generated code in throw-away environments with every protobuf that vLLM may bring.

The environments hold grpcio and protobuf only and are kept under ``.cache`` between runs; the
newest 7.x is looked for again once a day.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
DAY_S = 86_400.0
# vLLM allows protobuf >= 5.29.6 without 6.30 to 6.33.4; the upper bound is ours.
VERSIONS = {"5.29.6": "==5.29.6", "6.33.5": "==6.33.5", "7.x": ">=7,<8"}
# What pip says where the index cannot be reached, as against a version that it does not know.
UNREACHABLE = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Failed to establish a new connection",
    "Read timed out",
)
ROUND_TRIP = """
import sys
import google.protobuf
import grpc
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc
from google.protobuf import message_factory
from concurrent.futures import ThreadPoolExecutor

def fill(message, depth=0):
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            if depth > 6:
                continue
            part = getattr(message, field.name)
            if isinstance(part, google.protobuf.message.Message):
                part.SetInParent()
                fill(part, depth + 1)
            else:
                fill(part.add(), depth + 1)
            continue
        value = {
            field.CPPTYPE_STRING: "κ",
            field.CPPTYPE_DOUBLE: 0.25,
            field.CPPTYPE_BOOL: True,
            field.CPPTYPE_ENUM: 1,
        }.get(field.cpp_type, 7)
        target = getattr(message, field.name)
        if isinstance(target, bytes):
            value = b"1"
        if isinstance(target, (str, bytes, float, bool, int)):
            setattr(message, field.name, value)
        else:
            target.append(value)
    return message

import google.protobuf.message
names = list(pb.DESCRIPTOR.message_types_by_name)
for name in names:
    message = fill(getattr(pb, name)())
    data = message.SerializeToString(deterministic=True)
    assert type(message).FromString(data) == message, name

class Estimator(rpc.EstimatorServiceServicer):
    def BatchPredict(self, request, context):
        return pb.BatchPredictResponse(
            predictions=[pb.Prediction(token_count=len(request.inputs))], instance_id="κ"
        )

with ThreadPoolExecutor(2) as pool:
    server = grpc.server(pool)
    rpc.add_EstimatorServiceServicer_to_server(Estimator(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)]) as channel:
        stub = rpc.EstimatorServiceStub(channel)
        request = pb.BatchPredictRequest(inputs=[pb.PredictionInput()] * 3)
        assert stub.BatchPredict(request, timeout=20).predictions[0].token_count == 3
    rpc.InspectionServiceStub, rpc.AdminServiceStub
    server.stop(None).wait(5)
print(google.protobuf.__version__, len(names))
"""


@pytest.fixture(scope="module", params=list(VERSIONS))
def environment(request: pytest.FixtureRequest) -> tuple[str, Path]:
    name = str(request.param)
    folder = CACHE / f"protobuf-{name}"
    stamp = folder / ".stamp"
    fresh = stamp.exists() and (name != "7.x" or time.time() - stamp.stat().st_mtime < DAY_S)
    if not fresh:
        _build(folder, f"protobuf{VERSIONS[name]}")
        stamp.touch()
    return name, folder / "bin" / "python"


def _build(folder: Path, requirement: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--upgrade"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", requirement, "grpcio>=1.71.2,<2"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip("the package index cannot be reached, so no environment could be built")
    assert done.returncode == 0, done.stderr


def test_messages_and_stubs_work_without_a_warning(environment: tuple[str, Path]) -> None:
    name, python = environment
    done = subprocess.run(
        [str(python), "-W", "error", "-c", ROUND_TRIP],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, message_count = done.stdout.split()
    assert version.startswith(name.removesuffix("x"))
    assert int(message_count) > 30
    assert "warning" not in done.stderr.lower()
