"""Names: the client's id and the kill switch's file."""

from pathlib import Path

import pytest

from estimator.service.limits import check_client, check_watch
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.transport.convert import label
from sched_client.transport.identity import make_client_id, make_model_name
from sched_client.transport.kill_switch import kill_switch_path

BOOT = "5f0c8e52-0000-4000-8000-000000000001"


def test_engines_of_one_pod_have_names_of_their_own() -> None:
    assert make_client_id("pod", 0, BOOT) == f"pod/0/{BOOT}"
    assert make_client_id("pod", 0, BOOT) != make_client_id("pod", 1, BOOT)


def test_a_long_pod_name_is_cut_and_the_rest_kept() -> None:
    name = make_client_id("p" * 253, 12, BOOT)
    assert len(name) == 128
    assert name.endswith(f"p/12/{BOOT}")


@pytest.mark.parametrize(
    "served", ["whisper", "/weights/" + "x" * 200, "a\nb", "\udcff" * 100, "é" * 200]
)
def test_what_vllm_serves_has_a_name_that_the_sidecar_takes(served: str) -> None:
    name = make_model_name(served)
    status = pb.ClientStatus(client_id="c", model_id=name)
    check_client(status)
    check_watch(pb.WatchParametersRequest(client_id="c", model_ids=[name]))
    # The same in completions, by which its keys are learned.
    assert label(name) == name
    assert served.endswith(name) or not served.isprintable()


@pytest.mark.parametrize(
    ("target", "environment", "path"),
    [
        ("unix:///run/kappad/kappad.sock", {}, "/run/kappad/off"),
        ("unix:///srv/x/k.sock", {}, "/srv/x/off"),
        ("unix:/srv/x/k.sock", {}, "/srv/x/off"),
        ("unix:x/k.sock", {}, "x/off"),
        ("127.0.0.1:50051", {}, "/run/kappad/off"),
        ("unix:///srv/x/k.sock", {"KAPPAD_OFF_FILE": "/etc/stop"}, "/etc/stop"),
        ("unix:///srv/x/k.sock", {"KAPPAD_OFF_FILE": ""}, "/srv/x/off"),
    ],
)
def test_the_kill_switch_lies_beside_the_socket(
    target: str, environment: dict[str, str], path: str
) -> None:
    assert kill_switch_path(target, environment) == Path(path)
