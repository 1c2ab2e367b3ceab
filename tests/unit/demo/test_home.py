from pathlib import Path

import pytest

from estimator.demo import home


def test_a_clone_keeps_all_in_itself(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert home.home(tmp_path) == home.client_path(tmp_path) == tmp_path
    assert [one.name for one in tmp_path.iterdir()] == ["pyproject.toml"]


def test_an_installed_kappad_shows_vllm_the_client_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for site in ("old", "new"):
        for name in ("estimator", "sched_client", "protos", "numpy"):
            (tmp_path / site / name).mkdir(parents=True)
        seen = home.client_path(tmp_path / site)
        assert seen.is_relative_to(tmp_path / "cache" / "kappad")
        assert {one.name: one.resolve() for one in seen.iterdir()} == {
            "sched_client": tmp_path / site / "sched_client",
            "protos": tmp_path / site / "protos",
        }
    assert home.client_path(tmp_path / "new") == seen


def test_without_a_cache_variable_it_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home.home(tmp_path / "site") == tmp_path / ".cache" / "kappad"
