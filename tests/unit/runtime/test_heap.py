"""Free memory goes back where the C library can give it, and nothing breaks where it cannot."""

import platform

import pytest

from estimator.runtime import heap


def test_memory_is_given_back_with_glibc() -> None:
    assert heap.trim() == (platform.libc_ver()[0] == "glibc")


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_malloc_trim", None)
    assert not heap.trim()
