"""Turn CTranslate2's Whisper-base into the Hugging Face layout that vLLM reads.

Standard library only. Every variable of this model is float16 in both formats, so the conversion
splits and renames byte ranges and needs neither torch nor numpy; its output is the same on every
machine, which is what lets `estimator.demo.weights` pin a hash of it.
"""

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

# CTranslate2's data type ids (model_spec.py): only float16 carries weights here; the int8 and
# int16 scalars are options of its runtime.
_FLOAT16_ID: Final = 4
_ITEM_BYTES: Final = {0: 4, 1: 1, 2: 2, 3: 4, 4: 2}
_HEAD_WIDTH: Final = 64  # every Whisper has heads of 64 (openai/whisper, model.py)
_N_TIMESTAMPS: Final = 1501  # <|0.00|> to <|30.00|> in steps of 0.02 s
_FIRST_TIMESTAMP_ID: Final = 50364
_FIRST_MERGE: Final = "Ġ t"
_END: Final = "<|endoftext|>"
_SPECIAL: Final = {
    "bos_token_id": 50257,
    "eos_token_id": 50257,
    "pad_token_id": 50257,
    "decoder_start_token_id": 50258,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float16 array in row-major order."""

    shape: tuple[int, ...]
    data: memoryview

    def rows(self, first: int, last: int) -> "Tensor":
        """Give rows ``first`` to ``last`` (excluded) without copying."""
        row_bytes = len(self.data) // self.shape[0]
        return Tensor(
            (last - first, *self.shape[1:]), self.data[first * row_bytes : last * row_bytes]
        )


def read_variables(file: BinaryIO) -> dict[str, Tensor]:
    """Read the float16 variables of a CTranslate2 ``model.bin`` (binary version 6).

    Parameters
    ----------
    file : binary file
        At its start.

    Returns
    -------
    dict of str to Tensor
        Without the runtime's integer options.

    Raises
    ------
    ValueError
        A weight is not float16, so this is another model or another conversion.
    """

    def text() -> str:
        (length,) = struct.unpack("<H", file.read(2))
        return file.read(length)[:-1].decode()

    file.read(4)  # binary version
    text()  # name of the specification
    file.read(4)  # its revision
    (count,) = struct.unpack("<I", file.read(4))
    variables = {}
    for _ in range(count):
        name = text()
        (rank,) = struct.unpack("B", file.read(1))
        shape = struct.unpack(f"<{rank}I", file.read(4 * rank))
        type_id, size = struct.unpack("<BI", file.read(5))
        data = file.read(size)
        if type_id == _FLOAT16_ID:
            variables[name] = Tensor(shape, memoryview(data))
        elif rank > 1 or _ITEM_BYTES.get(type_id) == 4:  # noqa: PLR2004  # float32 or int32
            raise ValueError(f"{name} has type id {type_id}; only float16 weights are supported")
    return variables


def _n_layers(names: Iterable[str], side: str) -> int:
    prefix = f"{side}/layer_"
    found = {n.removeprefix(prefix).split("/")[0] for n in names if n.startswith(prefix)}
    return sum(index.isdigit() for index in found)


def rename(variables: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the same weights under Hugging Face's names, with fused projections split."""
    tensors: dict[str, Tensor] = {}
    width = variables["decoder/embeddings/weight"].shape[1]

    def norm(to: str, at: str) -> None:
        tensors[f"{to}.weight"] = variables[f"{at}/gamma"]
        tensors[f"{to}.bias"] = variables[f"{at}/beta"]

    def linear(to: str, at: str, *, part: int | None = None, bias: bool = True) -> None:
        for kind in ("weight", "bias") if bias else ("weight",):
            whole = variables[f"{at}/{kind}"]
            tensors[f"{to}.{kind}"] = (
                whole if part is None else whole.rows(part * width, (part + 1) * width)
            )

    for side in ("encoder", "decoder"):
        for layer in range(_n_layers(variables, side)):
            to, at = f"model.{side}.layers.{layer}", f"{side}/layer_{layer}"
            fused = f"{at}/self_attention/linear_0"
            linear(f"{to}.self_attn.q_proj", fused, part=0)
            linear(f"{to}.self_attn.k_proj", fused, part=1, bias=False)
            linear(f"{to}.self_attn.v_proj", fused, part=2)
            linear(f"{to}.self_attn.out_proj", f"{at}/self_attention/linear_1")
            norm(f"{to}.self_attn_layer_norm", f"{at}/self_attention/layer_norm")
            if side == "decoder":
                linear(f"{to}.encoder_attn.q_proj", f"{at}/attention/linear_0")
                linear(f"{to}.encoder_attn.k_proj", f"{at}/attention/linear_1", part=0, bias=False)
                linear(f"{to}.encoder_attn.v_proj", f"{at}/attention/linear_1", part=1)
                linear(f"{to}.encoder_attn.out_proj", f"{at}/attention/linear_2")
                norm(f"{to}.encoder_attn_layer_norm", f"{at}/attention/layer_norm")
            linear(f"{to}.fc1", f"{at}/ffn/linear_0")
            linear(f"{to}.fc2", f"{at}/ffn/linear_1")
            norm(f"{to}.final_layer_norm", f"{at}/ffn/layer_norm")
        norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        tensors[f"model.{side}.embed_positions.weight"] = variables[
            f"{side}/position_encodings/encodings"
        ]
    for index in (1, 2):
        linear(f"model.encoder.conv{index}", f"encoder/conv{index}")
    tensors["model.decoder.embed_tokens.weight"] = variables["decoder/embeddings/weight"]
    return tensors


def write_safetensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write float16 tensors as one safetensors file, in the order of their names."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # Any: JSON
    offset = 0
    for name in sorted(tensors):
        end = offset + len(tensors[name].data)
        header[name] = {
            "dtype": "F16",
            "shape": list(tensors[name].shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned to 8 bytes
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].data)


def _config(variables: dict[str, Tensor]) -> dict[str, Any]:
    vocabulary, width = variables["decoder/embeddings/weight"].shape
    encoder, decoder = (_n_layers(variables, side) for side in ("encoder", "decoder"))
    heads = width // _HEAD_WIDTH
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "torch_dtype": "float16",
        "activation_function": "gelu",
        "d_model": width,
        "vocab_size": vocabulary,
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "num_hidden_layers": encoder,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width,
        "num_mel_bins": 80,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "max_length": 448,
        "is_encoder_decoder": True,
        "scale_embedding": False,
        "use_cache": True,
        "init_std": 0.02,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "suppress_tokens": [],
        "begin_suppress_tokens": [220, 50257],
        **_SPECIAL,
    }


_PREPROCESSOR: Final = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "processor_class": "WhisperProcessor",
    "chunk_length": 30,
    "feature_size": 80,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": False,
    "sampling_rate": 16000,
}
_TOKENIZER_CONFIG: Final = {
    "tokenizer_class": "WhisperTokenizer",
    "model_max_length": 448,
    "bos_token": _END,
    "eos_token": _END,
    "unk_token": _END,
    "pad_token": _END,
}


def convert(model: Path, config: Path, tokenizer: Path, target: Path) -> None:
    """Write a Hugging Face model folder.

    Parameters
    ----------
    model, config, tokenizer : pathlib.Path
        CTranslate2's ``model.bin``, ``config.json`` and ``tokenizer.json``.
    target : pathlib.Path
        An existing folder.

    Notes
    -----
    The source's tokenizer lacks the 1,501 timestamp tokens, without which vLLM answers 500 to
    ``response_format=verbose_json``; they are added. It also lacks the first merge of Whisper's
    multilingual vocabulary, so that it split " the" in two and encoded English 15 % too long
    (decoding was right); that is put back.
    """
    with model.open("rb") as file:
        variables = read_variables(file)
    write_safetensors(rename(variables), target / "model.safetensors")
    source = json.loads(config.read_text(encoding="utf-8"))
    tokens = json.loads(tokenizer.read_text(encoding="utf-8"))
    added = {token["content"]: token["id"] for token in tokens["added_tokens"]}
    languages = set(source["lang_ids"])
    generation = {
        **_SPECIAL,
        "is_multilingual": True,
        "max_length": 448,
        "no_timestamps_token_id": 50363,
        "max_initial_timestamp_index": 50,
        "task_to_id": {"transcribe": 50359, "translate": 50358},
        "lang_to_id": {
            content: number for content, number in added.items() if number in languages
        },
        "suppress_tokens": source["suppress_ids"],
        "begin_suppress_tokens": source["suppress_ids_begin"],
    }
    if tokens["model"]["merges"][0] != _FIRST_MERGE:
        tokens["model"]["merges"].insert(0, _FIRST_MERGE)
    known = set(added.values())
    for step in range(_N_TIMESTAMPS):
        if _FIRST_TIMESTAMP_ID + step not in known:
            tokens["added_tokens"].append(
                {
                    "id": _FIRST_TIMESTAMP_ID + step,
                    "content": f"<|{step * 0.02:.2f}|>",
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
            )
    for name, content in (
        ("config.json", _config(variables)),
        ("generation_config.json", generation),
        ("tokenizer_config.json", _TOKENIZER_CONFIG),
        ("preprocessor_config.json", _PREPROCESSOR),
        ("tokenizer.json", tokens),
    ):
        text = json.dumps(content, ensure_ascii=False)
        (target / name).write_text(text, encoding="utf-8")
