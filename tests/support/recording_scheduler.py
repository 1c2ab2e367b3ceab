"""A scheduler that writes down what happened to each request; loaded by ``--scheduler-cls``.

Runs in vLLM's EngineCore. It only watches kappad's scheduler from outside, so that the order it
records is vLLM's own account (``scheduled_new_reqs``), not kappad's.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from sched_client.vllm import KappadScheduler

RECORD_VARIABLE = "KAPPAD_TEST_RECORD"


class RecordingScheduler(KappadScheduler):  # type: ignore[misc]  # a class of vLLM's: Any here
    """Appends one JSON line for each arrival, admission and end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._record_file = Path(os.environ[RECORD_VARIABLE]).open(  # noqa: SIM115  closed at exit
            "a", buffering=1, encoding="utf-8"
        )
        super().__init__(*args, **kwargs)
        self._write("start", kappad=self._kappad is not None)

    def add_request(self, request: Any) -> None:
        self._write("add", id=request.request_id, prompt=list(request.prompt_token_ids or ()))
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        before_s = time.monotonic()
        output = super().schedule(*args, **kwargs)
        admitted = [new.req_id for new in output.scheduled_new_reqs]
        if admitted:
            decision = self._kappad.decision
            self._write(
                "admit",
                at_s=before_s,
                ids=admitted,
                mode=decision.mode,
                policy=decision.policy,
                version=self._kappad.link.snapshot.version,
                waiting=len(self.waiting),
            )
        return output

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._write(
            "end",
            id=request.request_id,
            status=request.status.name,
            tokens=request.num_output_tokens,
            preemptions=request.num_preemptions,
        )
        return super()._free_request(request, *args, **kwargs)

    def _write(self, event: str, **values: Any) -> None:
        line = {"event": event, "at_s": time.monotonic(), **values}
        self._record_file.write(json.dumps(line) + "\n")
