"""``python -m benchmarks.learning`` runs, a part at a time, on the shipped traces."""

import json
import subprocess
import sys

from tests.support.kappad_process import ROOT


def measured(*parts: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.learning", *parts],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_one_part_gives_its_table_of_all_traces_of_speech() -> None:
    done = measured("file_order")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document) == ["file_order"]
    (table,) = document["file_order"]["tables"].values()
    assert len(table) == 8
    for row in table.values():
        # Speakers follow one another: what adapts beats each file's own Σn/Σd.
        assert 0.5 < row["mae_over_oracle"] < 1.0


def test_an_unknown_part_is_wrong_usage() -> None:
    done = measured("nonsense")
    assert done.returncode == 2
    assert "unknown part nonsense" in done.stderr
