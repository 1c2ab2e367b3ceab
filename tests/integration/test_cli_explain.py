"""One request, asked about by every name it has, over a real socket."""

import json
from collections.abc import Iterator

import grpc
import pytest

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc
from sched_client.completion import CompletionReport
from sched_client.model import Features
from sched_client.transport.convert import CompletionWriter
from tests.support.kappad_process import Sidecar, kappad, kappad_json, sidecar

BOOT = "5f0c9a52-0000-4000-8000-000000000000"
ENGINE = f"pod-0/0/{BOOT}"


def report(counter: int, engine_id: str, **fields: object) -> CompletionReport:
    """Give what the client inside vLLM reports of a request."""
    values: dict[str, object] = {
        "features": Features(
            model="base", task="transcribe", language="en", timestamps=False, audio_s=10.0,
            duration_source="mel", prompt_tokens=4, max_tokens=444,
        ),
        "output_tokens": 33, "finish_reason": "stop", "finished_s": 1.7e9 + counter,
        "wait_s": 0.25, "service_s": 0.75, "concurrency": 3.0, "predicted_tokens": 30.0,
        "snapshot_version": 1, "request_id": engine_id, "queue_id": "q0",
    }  # fmt: skip
    return CompletionReport(counter=counter, **{**values, **fields})  # type: ignore[arg-type] # fields of mixed types


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A sidecar that an engine has reported to."""
    writer = CompletionWriter(BOOT)
    reports = [
        *(report(n, f"transcribe-filler-{n}-0000000{n % 10}") for n in range(1, 60)),
        report(60, "transcribe-job/1-0123abcd"),
        report(61, "transcribe-long-0-0123abcd"),
        report(62, "transcribe-long-1-89abcdef", finish_reason="aborted", output_tokens=5),
        report(63, "chatcmpl-left-89abcdef", finish_reason="aborted", output_tokens=0),
    ]
    with sidecar() as started:
        with grpc.insecure_channel(started.target) as channel:
            answer = rpc.EstimatorServiceStub(channel).ReportCompletions(
                pb.ReportCompletionsRequest(
                    client=pb.ClientStatus(client_id=ENGINE, model_id="base"),
                    completions=map(writer.write, reports),
                ),
                timeout=20.0,
            )
        assert answer.accepted_count == len(reports)
        yield started


@pytest.mark.parametrize(
    "name", ["job/1", "transcribe-job/1", "transcribe-job/1-0123abcd", f"{BOOT}-60"]
)
def test_a_request_is_explained_by_each_of_its_names(running: Sidecar, name: str) -> None:
    (one,) = kappad_json(["explain", name], target=running.target)["completions"]
    assert one["completion_id"] == f"{BOOT}-60"
    assert one["client_id"] == ENGINE
    assert (one["model"], one["task"], one["language"]) == ("base", "transcribe", "en")
    assert (one["timestamps"], one["audio_s"], one["duration_source"]) == (False, 10.0, "mel")
    assert (one["output_tokens"], one["predicted_tokens"]) == (33, 30.0)
    assert one["actual_to_predicted_ratio"] == pytest.approx(1.1)
    assert one["interval"] in {"up to p50", "p50-p90", "p90-p99", "above p99"}
    assert (one["wait_s"], one["service_s"], one["concurrency"]) == (0.25, 0.75, 3.0)
    assert (one["lesson"], one["lesson_reason"], one["service_taught"]) == ("exact", "", True)
    now = one["now"]
    assert now["tokens"] == pytest.approx(33.0, rel=0.1)
    assert now["source"] == "learned"
    assert now["kappas"][0]["language"] == "en"
    assert now["kappas"][-1]["model"] == ""
    assert now["service_s"] > 0.0
    assert one["drift_events"] == []


def test_the_pieces_of_a_file_are_told_together(running: Sidecar) -> None:
    pieces = kappad_json(["explain", "long"], target=running.target)["completions"]
    assert [one["completion_id"] for one in pieces] == [f"{BOOT}-62", f"{BOOT}-61"]
    assert [one["lesson"] for one in pieces] == ["lower_bound", "exact"]
    done = kappad(["explain", "long"], target=running.target)
    assert done.returncode == 0
    blocks = done.stdout.split("\n\n")
    assert len(blocks) == 2
    assert "33 came, 30.0 expected by snapshot 1: × 1.10" in blocks[1]
    assert "κ of base/transcribe/en/no timestamps and its 4 parents" in blocks[1]


def test_what_taught_nothing_says_why(running: Sidecar) -> None:
    done = kappad(["explain", "left"], target=running.target)
    assert done.returncode == 0
    assert "taught    nothing of κ (its caller left before the end" in done.stdout


def test_an_unknown_id_names_what_is_kept_and_exits_with_3(running: Sidecar) -> None:
    done = kappad(["explain", "nobody", "--json"], target=running.target)
    assert done.returncode == 3
    assert json.loads(done.stdout) == {"completions": []}
    (line,) = done.stderr.splitlines()
    assert "no completion of 'nobody' is retained; 63 of at most 1,000,000 are, since" in line
    assert "retention_completions" in line


@pytest.mark.parametrize(("name", "code"), [("", 1), ("x" * 513, 1)])
def test_an_id_that_none_can_have_is_refused(running: Sidecar, name: str, code: int) -> None:
    done = kappad(["explain", name], target=running.target)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert "id: " in line


def test_the_id_that_is_asked_about_is_not_logged(running: Sidecar) -> None:
    kappad(["explain", "very-private-id"], target=running.target)
    assert "very-private-id" not in running.log()
