"""Sends completions and signs of life to the sidecar on a thread of its own.

A batch is kept until it is acknowledged or refused for good. Its ids are fixed by the reports'
counters, so that sending it twice counts it once.
"""

import logging
import random
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import grpc

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.options import ClientOptions
from sched_client.transport.buffer import ReportBuffer
from sched_client.transport.channel import Channel, code_of, describe, retry_delay_s
from sched_client.transport.convert import CompletionWriter, mode_message
from sched_client.transport.identity import Identity
from sched_client.transport.pacing import Backoff, Pacer
from sched_client.transport.running import RunningWriter
from sched_client.transport.state import MAX_REASON_LENGTH, LinkState, Refusal, Timing

_LOG: Final = logging.getLogger("kappad")


class Reporter:
    """The report loop.

    Parameters
    ----------
    state : LinkState
        Tells what the engine applies and does.
    buffer : ReportBuffer
        Filled by the engine's thread.
    options : ClientOptions
        Names the sidecar.
    identity : Identity
        Names this engine.
    boot_id : str
        Begins every completion id.
    timing : Timing
        Bounds.
    """

    def __init__(
        self,
        state: LinkState,
        buffer: ReportBuffer,
        options: ClientOptions,
        identity: Identity,
        boot_id: str,
        timing: Timing,
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._identity = identity
        self._timing = timing
        self._channel = Channel(options.target, timing)
        self._writer = CompletionWriter(boot_id)
        self._pacer = Pacer(timing.slice_s, timing.pause_s)
        self._running = RunningWriter(self._writer.hash_id, self._pacer)
        # Not for secrets: spreads the retries of many engines.
        self._backoff = Backoff(timing.backoff_min_s, timing.backoff_max_s, random.Random())  # noqa: S311
        self._batch: list[pb.Completion] = []
        self._lost = 0
        self._told_refusal: Refusal | None = None
        self._next_sign_s = 0.0
        self._next_running_s = 0.0
        self._client_version = _client_version()

    def run(self) -> None:
        """Report until the link stops, then send what can be sent in half the closing time."""
        # After an exception the thread runs this again: the batch may be what raised.
        self._drop(len(self._batch), "the client's own exception")
        self._batch.clear()
        delay_s = 0.0
        while not self._state.stop.wait(delay_s):
            delay_s = self._step(self._timing.deadline_s)
        end_s = time.monotonic() + self._timing.close_s / 2
        while (left_s := end_s - time.monotonic()) > 0 and (self._batch or len(self._buffer)):
            if self._step(left_s) > 0.0 and self._batch:
                return

    def close(self) -> None:
        """End a call in flight."""
        self._channel.close()

    def _step(self, timeout_s: float) -> float:
        """Send one batch if it is time; give the seconds until the next step."""
        self._fill()
        refusal = self._state.refusal
        running = self._told_running()
        due = self._batch or running or refusal is not self._told_refusal
        if not due and time.monotonic() < self._next_sign_s:
            return self._timing.flush_s
        request = pb.ReportCompletionsRequest(client=self._client(refusal))
        request.completions.extend(self._batch)
        request.running.extend(running)
        try:
            response = self._channel.report(request, timeout=timeout_s)
        except grpc.RpcError as error:
            return self._failed(error)
        except ValueError:  # the channel was closed by close()
            return self._timing.flush_s
        self._told_refusal = refusal
        self._next_sign_s = time.monotonic() + self._timing.sign_of_life_s
        self._batch.clear()
        self._backoff.reset()
        if response.rejections:
            first = response.rejections[0]
            self._drop(len(response.rejections), f"{first.reason}: {first.message}")
        return 0.0 if len(self._buffer) >= self._timing.batch_size else self._timing.flush_s

    def _fill(self) -> None:
        self._pacer.begin()
        while len(self._batch) < self._timing.batch_size:
            report = self._buffer.take()
            if report is None:
                return
            try:
                self._batch.append(self._writer.write(report))
            except (ValueError, TypeError, KeyError) as error:
                self._state.failures += 1
                self._drop(1, f"a report that is no message: {error}")
            if not self._state.stop.is_set():  # closing has no time for pauses
                self._pacer.step()

    def _told_running(self) -> list[pb.RunningRequest]:
        """Give what runs, after the completions were taken, so that none is in both.

        Once in ``running_s``; of a young key with each batch too, so that its first completions
        never come alone.
        """
        source, now_s = self._state.running, time.monotonic()
        due = now_s >= self._next_running_s
        # Closing has no time for its pauses, half a second for 256 requests of a busy engine.
        if source is None or self._state.stop.is_set() or not (self._batch or due):
            return []
        if due:
            self._next_running_s = now_s + self._timing.running_s
        kappas, offset_s = self._state.snapshot.kappas, time.time() - now_s
        try:
            return self._running.write(source, kappas, offset_s=offset_s, due=due)
        except Exception as error:  # noqa: BLE001  a hint, read of vLLM's own objects: no reason to lose the batch
            self._state.failures += 1
            _LOG.debug("kappad: what runs is no message: %s", error)
            return []

    def _failed(self, error: grpc.RpcError) -> float:
        code = code_of(error)
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            self._drop(len(self._batch), describe(error))
            self._batch.clear()
        elif code is grpc.StatusCode.DEADLINE_EXCEEDED and not self._state.stop.is_set():
            self._channel.renew()  # a frozen peer keeps its connection open
        return max(retry_delay_s(error), self._backoff.next_s())

    def _drop(self, count: int, reason: str) -> None:
        if count and not self._lost:
            _LOG.warning(
                "kappad: the sidecar cannot take a report (%s); counted from now on", reason
            )
        self._lost += count

    def _client(self, refusal: Refusal | None) -> pb.ClientStatus:
        status, position = self._state.status, self._state.position
        message = pb.ClientStatus(
            client_id=self._identity.client_id,
            model_id=self._identity.model,
            client_version=self._client_version,
            engine_version=self._identity.engine_version,
            applied_version=position.version,
            applied_instance_id=position.instance_id,
            effective_mode=mode_message(status.effective_mode),
            mode_reason=status.mode_reason[:MAX_REASON_LENGTH],
            policy=status.policy,
            dropped_report_count=self._buffer.dropped + self._lost,
            failure_count=status.failures + self._state.failures,
            waiting_count=status.waiting,
            running_count=status.running,
            admitted_count=status.admitted,
            reordered_count=status.reordered,
            kv_token_count=self._identity.kv_tokens or None,
            slot_count=self._identity.slots or None,
        )
        if refusal is not None:
            message.rejected_version = refusal.version
            message.reject_reason = refusal.reason
        return message


def _client_version() -> str:
    try:
        return version("kappad")
    except PackageNotFoundError:  # run from a checkout by its path
        return ""
