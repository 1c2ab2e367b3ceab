"""Whose socket file may be taken over."""

import os
import socket
import stat
from pathlib import Path

import pytest

from estimator.service import unix_socket


def test_a_missing_directory_is_made_for_the_group_only(tmp_path: Path) -> None:
    path = tmp_path / "run" / "k.sock"
    unix_socket.claim(str(path))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
    assert not path.exists()


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    unix_socket.claim(str(directory / "k.sock"))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_a_stale_socket_is_removed_and_a_live_one_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "k.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        with pytest.raises(unix_socket.SocketError, match="another server listens"):
            unix_socket.claim(path)
        assert os.path.lexists(path)
    unix_socket.claim(path)
    assert not os.path.lexists(path)


def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(unix_socket.SocketError, match="no socket"):
        unix_socket.claim(str(path))
    assert path.read_text() == "data"


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(unix_socket.SocketError, match=r"--listen"):
        unix_socket.claim(str(tmp_path / "file" / "k.sock"))


def test_the_umask_gives_the_mode_and_is_put_back(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with (
            unix_socket.private_umask(),
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server,
        ):
            server.bind(str(tmp_path / "k.sock"))
        assert stat.S_IMODE((tmp_path / "k.sock").stat().st_mode) == 0o660
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
