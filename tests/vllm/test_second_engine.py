"""A second engine on the same sidecar, short of KV cache so that requests are preempted."""

from collections import Counter

from estimator.demo.load import Arrival
from estimator.demo.schedule import Clip, arrival_of
from estimator.demo.stage import switch_mode
from tests.support.vllm_server import VllmServer, caller_id
from tests.vllm.conftest import Engine, Stock

# Repetition loops of 444 tokens: they outgrow the KV blocks that all four start with.
LOOPS = ("synthetic-hi-1.ogg", "synthetic-hi-3.ogg")


def test_preempted_requests_complete_with_the_same_text(
    engine: Engine, small_engine: VllmServer, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    loops = [c for c in clips if c.path.name in LOOPS]
    short = [c for c in clips if c.language == "en" and c.duration_s < 4.0]
    arrivals = [
        Arrival(
            due_s=0.0,
            clip=clip.path,
            audio_s=clip.duration_s,
            fields=(("language", clip.language),),
            request_id=f"preempt-{i}",
        )
        for i, clip in enumerate([*loops, *loops, *short, *short])
    ]
    with engine.slot.real(mode="on") as sidecar:
        sidecar.wait_for_engines(2)
        outcomes = small_engine.send(arrivals)
        completions = sidecar.wait_until_stored(len(arrivals))
    ended = {caller_id(e["id"]): e for e in small_engine.events("end") if "preempt-" in e["id"]}
    assert len(ended) == len(arrivals)
    assert sum(e["preemptions"] for e in ended.values()) >= 1, "nothing was preempted"
    assert sum(c.preemptions for c in completions) == sum(e["preemptions"] for e in ended.values())
    assert [o.text for o in outcomes] == [stock.texts[o.arrival.clip.name] for o in outcomes]


def test_two_engines_teach_and_follow_one_sidecar(
    engine: Engine, small_engine: VllmServer, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    english = [c for c in clips if c.language == "en" and c.duration_s < 12.0]
    with engine.slot.real() as sidecar:
        sidecar.wait_for_engines(2)
        assert switch_mode(sidecar.client, "on", "test")
        outcomes = engine.server.send([arrival_of(c, request_id="two-a") for c in english])
        outcomes += small_engine.send([arrival_of(c, request_id="two-b") for c in english])
        completions = sidecar.wait_until_stored(2 * len(english))
        clients = [c for c in sidecar.client.status().clients if c.watching]
        samples = sidecar.samples()
    assert len({c.client_id for c in clients}) == 2
    # A completion's id begins with its engine's boot uuid.
    boots = Counter(c.completion_id.rpartition("-")[0] for c in completions)
    assert sorted(boots.values()) == [len(english)] * 2
    assert samples == 2 * len(english)
    assert [o.text for o in outcomes] == [stock.texts[o.arrival.clip.name] for o in outcomes]
    for server, mark in ((engine.server, "two-a"), (small_engine, "two-b")):
        modes = {e["mode"] for e in server.events("admit") if mark in str(e["ids"])}
        assert modes == {"on"}
