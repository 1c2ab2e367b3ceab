"""Length and pieces of audio files, as vLLM would see them.

Wraps soundfile, which has no types. A header may lie: within vLLM's own limits the whole file is
decoded in blocks, so that the length given is the length that vLLM will decode.
"""

import contextlib
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import soundfile

from estimator.cli.terminal import printable
from estimator.core.observation import MAX_AUDIO_S
from sched_client.model import WHISPER_WINDOW_S

# vLLM 0.32.0, envs.py: VLLM_MAX_AUDIO_CLIP_FILESIZE_MB and VLLM_MAX_AUDIO_DECODE_DURATION_S.
VLLM_MAX_FILE_BYTES: Final = 25 * 2**20
VLLM_MAX_DECODE_S: Final = 600.0
# vLLM 0.32.0, config/speech_to_text.py: it cuts at the quietest of these windows (1600 samples
# at 16 kHz) within the last second before 30 s.
_SEARCH_S: Final = 1.0
_QUIET_WINDOW_S: Final = 0.1
# Samples decoded at a time, all channels together: 256 KiB of float32.
_BLOCK_SAMPLES: Final = 1 << 16
_REMEDY: Final = "convert it to WAV, FLAC, Ogg or MP3, or give --duration"


class AudioError(Exception):
    """A file whose length cannot be told; the message names it, the fault and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioLength:
    """What an audio file is to the engine.

    Attributes
    ----------
    duration_s : float
        Seconds that can be decoded, > 0.
    pieces_s : tuple of float
        Seconds of each engine request that it becomes, at most 30 each.
    warnings : tuple of str
        What else a user should know; each names the remedy.
    """

    duration_s: float
    pieces_s: tuple[float, ...]
    warnings: tuple[str, ...] = ()


def split_length(duration_s: float) -> tuple[float, ...]:
    """Cut a length whose audio is not at hand into pieces of 30 s and a rest.

    Parameters
    ----------
    duration_s : float
        Seconds, > 0.

    Returns
    -------
    tuple of float
        vLLM cuts up to 1 s earlier, at a quiet point.

    Examples
    --------
    >>> split_length(67.0)
    (30.0, 30.0, 7.0)
    """
    whole, rest = divmod(duration_s, WHISPER_WINDOW_S)
    pieces = (WHISPER_WINDOW_S,) * int(whole)
    return (*pieces, rest) if rest > 0.0 or not pieces else pieces


def read_length(path: str) -> AudioLength:
    """Tell how long a file is and into which pieces vLLM cuts it.

    Parameters
    ----------
    path : str
        Any name that the system allows.

    Returns
    -------
    AudioLength

    Raises
    ------
    AudioError
        Not a readable regular file, no audio, cut off, or longer than a day.
    """
    name = printable(path) or "(no name)"
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to would never return.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise AudioError(f"{name}: no such file; check the name") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AudioError(
            f"{name}: cannot be opened: {reason}; check the name and its rights"
        ) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise AudioError(f"{name}: is {what}; name an audio file")
        if found.st_size == 0:
            raise AudioError(f"{name}: is empty (0 bytes); send a file that holds audio")
        with _quiet_libraries():
            return _read(descriptor, name, found.st_size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, name: str, size: int) -> AudioLength:
    try:
        # By descriptor, not by name: libsndfile then looks at the bytes, not at the ending, and
        # a name that is no UTF-8 is no trouble.
        sound = soundfile.SoundFile(descriptor, closefd=False)
    except (soundfile.LibsndfileError, TypeError, ValueError) as error:
        fault = _fault_of(error)
        if fault == "Format not recognised":
            fault = "no audio format that libsndfile knows (raw samples have no header)"
        raise AudioError(f"{name}: {fault}; {_REMEDY}") from error
    with sound:
        rate = sound.samplerate
        claimed_s = sound.frames / rate
        if claimed_s > MAX_AUDIO_S:
            raise AudioError(f"{name}: claims {claimed_s:.0f} s, more than a day; cut it")
        warnings = _limit_warnings(name, size, claimed_s)
        if warnings:
            return AudioLength(
                duration_s=claimed_s, pieces_s=split_length(claimed_s), warnings=warnings
            )
        decoded = _decoded_frames(sound, name, claimed_s)
        if decoded == 0:
            raise AudioError(f"{name}: holds no samples (0 s); send a file that holds audio")
        duration_s = decoded / rate
        if abs(claimed_s - duration_s) > _TOLERANCE_S:
            text = (
                f"{name}: the header claims {claimed_s:.3f} s, {duration_s:.3f} s can be decoded"
            )
            warnings = (f"{text}; the latter is used",)
        pieces: tuple[float, ...] = (duration_s,)
        if duration_s > WHISPER_WINDOW_S:
            pieces = _pieces(sound, decoded)
        return AudioLength(duration_s=duration_s, pieces_s=pieces, warnings=warnings)


# An MP3's header counts the encoder's padding, a few thousand samples.
_TOLERANCE_S: Final = 0.2


def _limit_warnings(name: str, size: int, claimed_s: float) -> tuple[str, ...]:
    warnings = []
    if size > VLLM_MAX_FILE_BYTES:
        text = f"{name}: {size / 2**20:.0f} MiB, vLLM refuses over {VLLM_MAX_FILE_BYTES >> 20}"
        warnings.append(f"{text} unless VLLM_MAX_AUDIO_CLIP_FILESIZE_MB is raised")
    if claimed_s > VLLM_MAX_DECODE_S:
        text = f"{name}: {claimed_s:.0f} s, vLLM refuses over {VLLM_MAX_DECODE_S:.0f}"
        warnings.append(f"{text} unless VLLM_MAX_AUDIO_DECODE_DURATION_S is raised")
    return tuple(f"{text}; not decoded, the length is its header's" for text in warnings)


# Any: soundfile has no types.
def _decoded_frames(sound: Any, name: str, claimed_s: float) -> int:
    block = max(_BLOCK_SAMPLES // sound.channels, 1)
    limit = (VLLM_MAX_DECODE_S + 1.0) * sound.samplerate
    frames = 0
    try:
        while (count := len(sound.read(block, dtype="float32", always_2d=True))) > 0:
            frames += count
            if frames > limit:
                raise AudioError(
                    f"{name}: goes on after the {claimed_s:.3f} s it claims; {_REMEDY}"
                )
    except (soundfile.LibsndfileError, RuntimeError) as error:
        # vLLM's own soundfile stops here, too, and refuses the request: no length to give.
        text = f"{name}: breaks off after {frames / sound.samplerate:.3f} s of the"
        text = f"{text} {claimed_s:.3f} s that its header claims ({_fault_of(error)})"
        raise AudioError(f"{text}; vLLM refuses it, send the whole file") from error
    return frames


def _pieces(sound: Any, total: int) -> tuple[float, ...]:
    """Cut as vLLM's ``split_audio`` does, reading only the seconds in which it looks."""
    rate = sound.samplerate
    chunk, search = int(rate * WHISPER_WINDOW_S), int(rate * _SEARCH_S)
    window = max(int(rate * _QUIET_WINDOW_S), 1)
    start, pieces = 0, []
    try:
        while start + chunk < total:
            sound.seek(start + chunk - search)
            samples = sound.read(search, dtype="float32", always_2d=True).mean(axis=1)
            cut = start + chunk - search + _quietest(samples, window)
            pieces.append((cut - start) / rate)
            start = cut
    except (soundfile.LibsndfileError, RuntimeError):
        return split_length(total / rate)  # decodes, but cannot seek
    return (*pieces, (total - start) / rate)


def _quietest(samples: "np.ndarray[Any, np.dtype[np.float32]]", window: int) -> int:
    starts = range(0, len(samples) - window, window)
    energies = [float(np.mean(samples[at : at + window] ** 2)) for at in starts]
    # Not-a-number samples of a float file lose every comparison; vLLM skips them, too.
    finite = [pair for pair in zip(energies, starts, strict=True) if math.isfinite(pair[0])]
    return min(finite)[1] if finite else 0


def _fault_of(error: Exception) -> str:
    text = error.error_string if isinstance(error, soundfile.LibsndfileError) else str(error)
    return " ".join(str(text).removeprefix("Error : ").split()).rstrip(".")


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keep libmpg123 from writing its own lines to standard error."""
    try:
        saved = os.dup(2)
    except OSError:  # closed: nothing to protect
        yield
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
