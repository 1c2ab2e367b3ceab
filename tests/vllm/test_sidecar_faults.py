"""Whatever happens to the sidecar, every transcription completes with stock vLLM's text."""

import signal
import threading
import time
from collections.abc import Callable

from estimator.demo.load import Outcome
from estimator.demo.schedule import Clip, arrival_of
from tests.vllm.conftest import Engine, Stock

N_REQUESTS = 14
GAP_S = 0.5


def load_while(
    engine: Engine, clips: tuple[Clip, ...], name: str, disturb: Callable[[], None]
) -> list[Outcome]:
    """Send requests over 7 s and disturb the sidecar after 2 s."""
    english = [c for c in clips if c.language == "en"]
    arrivals = [
        arrival_of(english[i % len(english)], due_s=i * GAP_S, request_id=f"fault-{name}-{i}")
        for i in range(N_REQUESTS)
    ]
    timer = threading.Timer(2.0, disturb)
    timer.start()
    try:
        return engine.server.send(arrivals)
    finally:
        timer.join()


def assert_like_stock(outcomes: list[Outcome], stock: Stock) -> None:
    wrong = {
        o.arrival.clip.name: (o.text, stock.texts[o.arrival.clip.name])
        for o in outcomes
        if o.text != stock.texts[o.arrival.clip.name]
    }
    assert wrong == {}


def test_never_present(engine: Engine, stock: Stock) -> None:
    assert len(engine.before_any_sidecar) >= 10
    assert_like_stock(engine.before_any_sidecar, stock)


def test_killed_and_restarted_on_the_same_store(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    sidecar = engine.slot.start_real("killed", mode="on")
    sidecar.wait_for_engines()
    instance_id = sidecar.client.status().instance_id
    outcomes = load_while(engine, clips, "killed", sidecar.child.kill)
    sidecar.client.close()
    assert_like_stock(outcomes, stock)
    # The socket's file is left behind, as kill -9 leaves it.
    with engine.slot.real("killed") as restarted:
        restarted.before = sidecar.before
        # What ended while nobody listened was buffered and arrives now, nothing twice.
        completions = restarted.wait_until_stored(N_REQUESTS)
        status = restarted.client.status()
    assert status.instance_id == instance_id
    assert len(completions) == N_REQUESTS
    assert len({c.completion_id for c in completions}) == N_REQUESTS
    assert {c.dropped_reports for c in status.clients} == {0}


def test_frozen_and_thawed(engine: Engine, stock: Stock, clips: tuple[Clip, ...]) -> None:
    with engine.slot.real(mode="on") as sidecar:
        sidecar.wait_for_engines()
        outcomes = load_while(
            engine, clips, "frozen", lambda: sidecar.child.signal(signal.SIGSTOP)
        )
        assert_like_stock(outcomes, stock)
        sidecar.child.signal(signal.SIGCONT)
        completions = sidecar.wait_until_stored(N_REQUESTS)
        assert len(completions) == N_REQUESTS


def test_garbage(engine: Engine, stock: Stock, clips: tuple[Clip, ...]) -> None:
    english = [c for c in clips if c.language == "en"]
    with engine.slot.garbage() as garbage:
        deadline = time.monotonic() + 15.0
        outcomes: list[Outcome] = []
        while garbage.served == 0 or not outcomes:
            assert time.monotonic() < deadline, "the engine never connected to the garbage"
            outcomes += engine.server.send([arrival_of(clip) for clip in english])
    assert_like_stock(outcomes, stock)
    engine.slot.drain()
