"""What one sidecar learned, taken out, and given to another before its first request."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kappad_process import (
    ROOT,
    Sidecar,
    kappad,
    kappad_json,
    sidecar,
)

TRACE = ROOT / "benchmarks/traces/ud-french-parisstories.csv.gz"
GOOD = "audio_s,output_tokens,language,model\n" + "".join(
    f"{1 + n % 20},{6 + 3 * (n % 20)},en,{('a', 'b')[n % 2]}\n" for n in range(200)
)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar that has learned two models and a trace."""
    folder = tmp_path_factory.mktemp("taught")
    with sidecar() as running:
        done = kappad(
            ["learn", str(TRACE), write(folder / "two.csv", GOOD)], target=running.target
        )
        assert done.returncode == 0, done
        yield running


def answers(target: str) -> Any:  # Any: JSON
    """Give what requests of the trace's language are expected to be; versions differ."""
    lengths = [text for n in range(1, 30) for text in ("--duration", str(n))]
    arguments = ["predict", *lengths, "--language", "fr", "--model", "default"]
    document = kappad_json(arguments, target=target)
    for one in document["estimates"]:
        del one["snapshot_version"]
    return document


def test_a_sidecar_that_starts_from_a_seed_answers_as_the_warm_one(
    taught: Sidecar, tmp_path: Path
) -> None:
    seed = tmp_path / "seed.json"
    summary = kappad_json(["export", "--model", str(seed)], target=taught.target)
    warm = answers(taught.target)
    assert {one["source"] for one in warm["estimates"]} == {"learned"}
    with sidecar("--seed", str(seed)) as new:
        assert answers(new.target) == warm
        status = kappad_json(["status"], target=new.target)
        assert (status["learned_count"], status["stored_count"]) == (1218, 0)
        assert '"started from a seed"' in new.log()
        # It goes on learning, and a restart knows both.
        more = write(tmp_path / "more.csv", GOOD)
        assert kappad(["learn", more], target=new.target).returncode == 0
        assert kappad_json(["status"], target=new.target)["learned_count"] == 1418
    document = json.loads(seed.read_text(encoding="utf-8"))
    assert summary == {
        "file": str(seed),
        "schema": document["state"]["schema"],
        "learned_count": document["learned_count"],
        "key_count": document["key_count"],
        "model": "",
        "kappad_version": document["kappad_version"],
        "created_unix_s": summary["created_unix_s"],
        "size_bytes": seed.stat().st_size,
    }
    assert document["learned_count"] == 1218


def test_a_seed_holds_no_id_and_no_hash(taught: Sidecar, tmp_path: Path) -> None:
    seed = tmp_path / "seed.json"
    kappad_json(["export", "--model", str(seed)], target=taught.target)
    text = seed.read_text(encoding="utf-8")
    status = kappad_json(["status"], target=taught.target)
    assert status["instance_id"] not in text
    assert "learn-" not in text  # what begins the trace's completion ids
    assert "kappad-learn" not in text


def test_the_seed_may_hold_one_model_alone(taught: Sidecar, tmp_path: Path) -> None:
    seed = tmp_path / "a.json"
    arguments = ["export", "--model", str(seed), "--served-model", "a"]
    assert kappad_json(arguments, target=taught.target)["model"] == "a"
    with sidecar("--seed", str(seed)) as new:
        kappas = kappad_json(["kappa"], target=new.target)["kappas"]
        assert {one["model"] for one in kappas} == {"", "a"}
    done = kappad([*arguments[:-1], "c"], target=taught.target)
    assert done.returncode == 1
    assert "nothing was learned of 'c'; known: a, b, default" in done.stderr


def test_the_seed_goes_to_standard_output_and_comes_from_a_variable_or_a_file(
    taught: Sidecar, tmp_path: Path
) -> None:
    done = kappad(["export", "--model", "-"], target=taught.target)
    assert done.returncode == 0
    seed = write(tmp_path / "seed.json", done.stdout)
    config = write(tmp_path / "kappad.toml", f"seed = {json.dumps(seed)}\n")
    with sidecar("--config", config) as new:
        assert kappad_json(["status"], target=new.target)["learned_count"] == 1218
    missing = {"KAPPAD_SERVE_SEED": str(tmp_path / "none.json")}
    where = ["--listen", f"unix://{tmp_path}/s.sock", "--state-dir", str(tmp_path / "state")]
    done = kappad(["serve", *where], extra=missing)
    assert done.returncode == 2
    assert "none.json': cannot be read: No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: text[: len(text) // 2], "is no seed"),
        (lambda _: "audio_s,output_tokens\n1,4\n", "is no seed"),
        (lambda text: text.replace('"version": 1', '"version": 9', 1), "has format version 9"),
        (lambda text: text.replace('"learned_count":1', '"learned_count":2'), "its checksum"),
    ],
    ids=["cut", "trace", "version", "changed"],
)
def test_a_bad_seed_is_one_line_and_exit_code_2_and_leaves_nothing(
    taught: Sidecar, tmp_path: Path, change: Any, word: str
) -> None:  # Any: a function on text
    done = kappad(["export", "--model", "-"], target=taught.target)
    seed = write(tmp_path / "seed.json", change(done.stdout))
    socket = tmp_path / "s.sock"
    where = ["--listen", f"unix://{socket}", "--state-dir", str(tmp_path / "state")]
    done = kappad(["serve", *where, "--log-level", "error", "--seed", seed])
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kappad serve: seed {seed!r}: ")
    assert word in line
    assert "kappad export --model" in line
    assert not socket.exists()


def test_a_store_that_has_learned_ignores_the_seed_and_says_so_once(tmp_path: Path) -> None:
    trace = write(tmp_path / "some.csv", GOOD)
    state = tmp_path / "state"
    with sidecar("--state-dir", str(state)) as first:
        assert kappad(["learn", trace], target=first.target).returncode == 0
    with sidecar("--state-dir", str(state), "--seed", "/does/not/exist.json") as second:
        assert kappad_json(["status"], target=second.target)["learned_count"] == 200
        lines = [line for line in second.log().splitlines() if "seed" in line]
    (line,) = lines
    assert "this store has learned already" in line


def test_wrong_usage_of_an_export_is_one_line(taught: Sidecar, tmp_path: Path) -> None:
    for arguments, word in (
        (["--model", str(tmp_path / "seed.csv")], "a seed is JSON; name it .json"),
        ([str(tmp_path / "x.csv"), "--served-model", "a"], "--served-model goes with --model"),
    ):
        done = kappad(["export", *arguments], target=taught.target)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert word in line
    assert list(tmp_path.iterdir()) == []


def test_a_seed_appears_whole_or_not_at_all(taught: Sidecar, tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    old = write(folder / "seed.json", "old")
    nobody = "unix:///tmp/kappad-test-nobody.sock"
    assert kappad(["export", "--model", old], target=nobody).returncode == 1
    assert Path(old).read_text(encoding="utf-8") == "old"
    done = kappad(["export", "--model", str(folder / "no" / "seed.json")], target=taught.target)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["seed.json"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert kappad(["export", "--model", old], target=taught.target).returncode == 0
    assert stat.S_IMODE(Path(old).stat().st_mode) == 0o644 & ~mask
    assert json.loads(Path(old).read_text(encoding="utf-8"))["format"] == "kappad-seed"
