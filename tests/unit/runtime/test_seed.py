"""What a sidecar learned, in a file: read back the same, and refused in words where it is not."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from estimator.core.pipeline import SCHEMA, Pipeline
from estimator.runtime import seed as seeds
from estimator.runtime.seed import SeedError, read_seed, write_seed
from estimator.runtime.startup import build_learner
from estimator.store.memory import MemoryStore
from estimator.store.state_text import encoded
from estimator.telemetry.metrics import Metrics
from sched_client.model import Key
from tests.support.completions import speech
from tests.support.runtime import FragileStore, completions, config, running, until

EN = Key("default", "transcribe", "en", timestamps=False)


def learned(n: int = 200, *, kappa: float = 3.1) -> Pipeline:
    pipeline = Pipeline()
    for completion in speech(n, kappa=kappa):
        pipeline.learn_one(completion)
    return pipeline


def written(path: Path, state: Any, *, version: str = "1.2.3") -> str:  # Any: JSON
    with path.open("w", encoding="utf-8") as out:
        write_seed(
            out,
            "".join(encoded(state)),
            created_s=1.5e9,
            kappad_version=version,
            model="",
            learned_count=200,
            key_count=5,
        )
    return str(path)


def test_a_seed_is_read_back_the_same(tmp_path: Path) -> None:
    state = learned().state()
    seed = read_seed(written(tmp_path / "seed.json", state))
    assert seed.state == json.loads(json.dumps(state))
    assert (seed.created, seed.kappad_version) == ("2017-07-14T02:40:00+00:00", "1.2.3")
    assert (seed.learned_count, seed.key_count, seed.model) == (200, 5, "")


@pytest.mark.parametrize(
    "state",
    [{}, {"a": []}, {"a": [1]}, {"a": [[1.5, "ü"], {"b": None}], "c": {"d": [2]}, "e": "f"}],
    ids=str,
)
def test_a_state_is_encoded_as_json_would_be_in_one_call(state: dict[str, Any]) -> None:
    # Any: JSON.
    assert "".join(encoded(state)) == json.dumps(state, separators=(",", ":"))


def test_a_seed_is_one_line_of_json() -> None:
    out = io.StringIO()
    write_seed(
        out, '{"schema":1}', created_s=0.0, kappad_version="1", model="ü", learned_count=0,
        key_count=1,
    )  # fmt: skip
    (line,) = out.getvalue().splitlines()
    assert list(json.loads(line))[:2] == ["format", "version"]
    assert json.loads(line)["state"] == {"schema": 1}


def remove(path: str) -> None:
    Path(path).unlink()


GOOD = {
    "format": "kappad-seed", "version": 1, "created": "", "kappad_version": "", "model": "",
    "learned_count": 0, "key_count": 0, "state_sha256": "", "state": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is no seed: Expecting value"),
        (b"audio_s,output_tokens\n1,4\n", "is no seed: Expecting value"),
        (os.urandom(64) + b"\xff\xfe", "is no seed: "),
        (b"[1]", "holds no JSON object"),
        (b'{"format": NaN}', "NaN is no number of JSON"),
        (b"[" * 200_000, "is no seed: "),
        (b"{}", "format is not 'kappad-seed'"),
        (
            json.dumps({**GOOD, "version": 2}).encode(),
            "has format version 2, this version reads 1",
        ),
        (json.dumps(GOOD).encode()[:-2], "is no seed: "),
        (json.dumps({k: v for k, v in GOOD.items() if k != "model"}).encode(), "'model' is miss"),
        (json.dumps({**GOOD, "state": []}).encode(), "'state' is no dict"),
        (json.dumps({**GOOD, "key_count": "1"}).encode(), "'key_count' is no int"),
        (json.dumps(GOOD).encode(), "does not match its checksum"),
        (
            json.dumps({**GOOD, "state": {"a": "inf"}}).encode().replace(b'"inf"', b"1e999"),
            "is damaged: Out of range",
        ),
    ],
)
def test_what_is_no_seed_is_named_with_reason_and_remedy(
    tmp_path: Path, content: bytes, word: str
) -> None:
    path = tmp_path / "seed.json"
    path.write_bytes(content)
    with pytest.raises(SeedError) as caught:
        read_seed(path)
    message = str(caught.value)
    assert message.startswith(f"seed {str(path)!r}: ")
    assert word in message
    assert "kappad export --model" in message
    assert "\n" not in message


def test_a_number_that_was_changed_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "seed.json", learned().state())
    text = Path(path).read_text(encoding="utf-8")
    # The first digit of a list's last number: the last digit of 16 may be lost in rounding.
    end = text.index("]", text.index('"kappas"'))
    at = text.rindex(",", 0, end) + 1
    Path(path).write_text(f"{text[:at]}{'1' if text[at] != '1' else '2'}{text[at + 1 :]}")
    with pytest.raises(SeedError, match="checksum"):
        read_seed(path)


def test_files_that_cannot_be_read_do_not_hold_the_start(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, word in (
        (pipe, "is no regular file"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "none", "cannot be read: No such file"),
    ):
        with pytest.raises(SeedError, match=word):
            read_seed(path)


def test_a_huge_file_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds, "MAX_SEED_BYTES", 2**20)
    path = tmp_path / "seed.json"
    path.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(SeedError, match="larger than 1 MiB; export one model alone"):
        read_seed(path)


async def test_an_empty_store_starts_from_the_seed_and_goes_on(tmp_path: Path) -> None:
    pipeline = learned()
    path = written(tmp_path / "seed.json", pipeline.state())
    store = FragileStore()
    async with running(store, config(seed=path)) as sidecar:
        snapshot = sidecar.learner.publisher.snapshot
        assert snapshot.kappas == pipeline.kappas()
        assert snapshot.kappas[EN].source == "learned"
        sidecar.learner.submit(completions(10))
        await until(lambda: sidecar.learner.pipeline.learned_count == 210, "210 learned")
    # A restart needs no file: the checkpoint holds what the seed said.
    remove(path)
    async with running(store, config(seed=path)) as sidecar:
        assert sidecar.learner.pipeline.learned_count == 210
        assert sidecar.learner.publisher.snapshot.kappas[EN].sample_count == 200


async def test_a_crash_right_after_the_start_keeps_the_seed(tmp_path: Path) -> None:
    path = written(tmp_path / "seed.json", learned().state())
    store = FragileStore()
    async with running(store, config(seed=path), drain=False):
        pass
    async with running(store, config()) as sidecar:
        assert sidecar.learner.pipeline.learned_count == 200


async def test_a_store_that_has_learned_does_not_even_read_the_seed() -> None:
    store = FragileStore()
    async with running(store, config()) as sidecar:
        await sidecar.learner.submit(completions(10))
        await until(lambda: sidecar.learner.pipeline.learned_count == 10, "10 learned")
    async with running(store, config(seed="/does/not/exist")) as sidecar:
        assert sidecar.learner.pipeline.learned_count == 10


async def test_a_store_that_was_opened_and_has_learned_nothing_is_empty(tmp_path: Path) -> None:
    store = FragileStore()
    async with running(store, config()) as sidecar:
        first = sidecar.learner.publisher.snapshot.version
    path = written(tmp_path / "seed.json", learned().state())
    async with running(store, config(seed=path)) as sidecar:
        assert sidecar.learner.pipeline.learned_count == 200
        assert sidecar.learner.publisher.snapshot.version > first


async def test_events_that_last_in_the_seed_are_listed_here(tmp_path: Path) -> None:
    pipeline = learned()
    for completion in speech(400, kappa=9.0, start=1000):
        if pipeline.open_drifts:
            break
        pipeline.learn_one(completion)
    assert pipeline.open_drifts
    path = written(tmp_path / "seed.json", pipeline.state())
    store = FragileStore()
    async with running(store, config(seed=path)) as sidecar:
        assert sidecar.learner.pipeline.open_drift_count == len(pipeline.open_drifts)
        listed = tuple(event for _, event in store.list_drifts())
        assert sorted(event.event_id for event in listed) == sorted(
            event.event_id for event in pipeline.open_drifts
        )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda state: state.update(schema=SCHEMA + 1), f"this version reads {SCHEMA}; export it"),
        (lambda state: state.pop("services"), "is damaged"),
        (lambda state: state.update(kappas="none"), "is damaged"),
        (lambda state: state.update(kappas={"a": 1}), "is damaged"),
        (lambda state: state.update(services=[1]), "is damaged"),
        (lambda state: state.update(open_drifts=[[1, 2]]), "is damaged"),
        (lambda state: state["kappas"][0].pop(), "is damaged"),
        (lambda state: state.update(learned_count="many"), "is damaged"),
        (lambda state: state["services"][""].__setitem__(5, "many"), "is damaged"),
    ],
    ids=["schema", "lacks", "text", "object", "services", "drifts", "row", "count", "mean"],
)
async def test_a_state_that_is_not_ours_is_refused_in_words(
    tmp_path: Path, change: Any, word: str
) -> None:  # Any: a function on JSON
    state = json.loads(json.dumps(learned().state()))
    change(state)
    path = written(tmp_path / "seed.json", state)
    store = MemoryStore()
    with pytest.raises(SeedError, match=word):
        await build_learner(config(seed=path), store, Metrics())
