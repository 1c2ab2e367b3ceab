"""Switching the mode while a hundred wait loses none, and is obeyed within two seconds."""

import threading
import time

from estimator.demo.schedule import Clip, arrival_of
from sched_client.model import Mode
from tests.support.sidecar_slot import settled
from tests.support.vllm_server import caller_id, wait_for
from tests.vllm.conftest import Engine, Stock

N_REQUESTS = 120
SWITCHES: tuple[Mode, ...] = ("on", "off", "shadow", "on", "off", "on")
OBEYED_WITHIN_S = 2.0


def test_switching_with_100_waiting_loses_none(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    short = [c for c in clips if c.duration_s < 2.5 and c.language in {"en", "de", "es"}]
    arrivals = [
        arrival_of(short[i % len(short)], request_id=f"switch-{i}") for i in range(N_REQUESTS)
    ]
    first = len(engine.server.events())
    switched: list[tuple[float, Mode]] = []

    with engine.slot.real() as sidecar:
        sidecar.wait_for_engines()

        def switch() -> None:
            wait_for(
                lambda: any(
                    e["event"] == "admit" and e["waiting"] >= 100
                    for e in engine.server.events()[first:]
                ),
                60.0,
                "100 waiting",
            )
            for mode in SWITCHES:
                sidecar.client.set_mode(mode, "test")
                switched.append((time.monotonic(), mode))
                time.sleep(4.0)

        thread = threading.Thread(target=switch)
        thread.start()
        outcomes = engine.server.send(arrivals)
        thread.join()
        # Switched off, an engine reports nothing: only this many are known to be kept.
        settled(lambda: sidecar.client.status().learned)
        clients = sidecar.client.status().clients

    events = engine.server.events()[first:]
    assert all(o.text == stock.texts[o.arrival.clip.name] for o in outcomes)
    ended = [caller_id(e["id"]) for e in events if e["event"] == "end"]
    assert sorted(ended) == sorted(a.request_id for a in arrivals)
    assert {c.failures for c in clients} == {0}
    admits = [e for e in events if e["event"] == "admit"]
    assert max(e["waiting"] for e in admits) >= 100
    for (at_s, mode), (until_s, _) in zip(
        switched, [*switched[1:], (switched[-1][0] + 4.0, "on")], strict=True
    ):
        obeyed = {e["mode"] for e in admits if at_s + OBEYED_WITHIN_S < e["at_s"] < until_s}
        assert obeyed <= {mode}, f"{mode} was set, {obeyed} was in force"
    assert {"on", "off", "shadow"} <= {e["mode"] for e in admits}
