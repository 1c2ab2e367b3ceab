"""Ids of Whisper's control tokens in the served model's own vocabulary.

The ids differ between versions: large-v3 has one language more, which shifts every later id.
Standard library only; files are read once, when the scheduler is built.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

# Whisper's published order (openai/whisper, tokenizer.py, LANGUAGES); `yue` came with large-v3.
# fmt: off
LANGUAGES: Final = (
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv",
    "it", "id", "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no",
    "th", "ur", "hr", "bg", "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr",
    "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",
    "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu",
    "am", "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl",
    "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue",
)
# fmt: on
# Number of languages by vocabulary size: multilingual up to large-v2, and large-v3 with turbo.
_LANGUAGE_COUNT: Final[Mapping[int, int]] = {51865: 99, 51866: 100}
_MULTILINGUAL_START: Final = 50258
# English-only models (tiny.en to medium.en): no language or task stands in their prompts.
_ENGLISH_VOCABULARY: Final = 51864
_ENGLISH_START: Final = 50257
_ENGLISH_NO_TIMESTAMPS: Final = 50362
# A larger generation_config.json than this is none of Whisper's (they are about 4 kB).
_MAX_FILE_BYTES: Final = 1 << 20


class Vocabulary(NamedTuple):
    """Where the control tokens of one Whisper version are.

    Attributes
    ----------
    start : int
        Start-of-transcript.
    languages : Mapping of int to str
        Language code by token id.
    tasks : Mapping of int to str
        ``transcribe`` and ``translate`` by token id.
    no_timestamps : int
        The token that switches timestamps off.
    default_language, default_task : str
        What holds where the prompt names none (English-only models).
    """

    start: int
    languages: Mapping[int, str]
    tasks: Mapping[int, str]
    no_timestamps: int
    default_language: str = ""
    default_task: str = "transcribe"


def vocabulary_by_size(size: int) -> Vocabulary | None:
    """Give the table for a vocabulary size, or None for an unknown one.

    Examples
    --------
    >>> table = vocabulary_by_size(51865)
    >>> table.start, table.languages[50259], table.tasks[50359], table.no_timestamps
    (50258, 'en', 'transcribe', 50363)
    """
    if size == _ENGLISH_VOCABULARY:
        return Vocabulary(_ENGLISH_START, {}, {}, _ENGLISH_NO_TIMESTAMPS, "en")
    count = _LANGUAGE_COUNT.get(size)
    if count is None:
        return None
    first = _MULTILINGUAL_START + 1
    after = first + count
    # After the languages: translate, transcribe, start-of-lm, start-of-previous, no-speech.
    return Vocabulary(
        start=_MULTILINGUAL_START,
        languages={first + index: code for index, code in enumerate(LANGUAGES[:count])},
        tasks={after: "translate", after + 1: "transcribe"},
        no_timestamps=after + 5,
    )


def vocabulary_by_file(path: Path) -> Vocabulary | None:
    """Read the ids from a model's ``generation_config.json``, or give None.

    Parameters
    ----------
    path : pathlib.Path
        The file; one that is absent, too large or not Whisper's gives None.

    Returns
    -------
    Vocabulary or None
        With the languages and tasks that the file names.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        languages = {
            int(token): str(text).strip("<|>") for text, token in content["lang_to_id"].items()
        }
        tasks = {int(token): str(text) for text, token in content["task_to_id"].items()}
        return Vocabulary(
            start=int(content["decoder_start_token_id"]),
            languages=languages,
            tasks=tasks,
            no_timestamps=int(content["no_timestamps_token_id"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def served_vocabulary(model_config: Any) -> Vocabulary | None:
    """Find the control tokens of the model that vLLM serves.

    Parameters
    ----------
    model_config : vllm.config.ModelConfig
        Any: vLLM's types are not seen here, and any attribute may be missing.

    Returns
    -------
    Vocabulary or None
        None where the model is no Whisper, or one whose ids are not known.
    """
    hf_config = getattr(model_config, "hf_config", None)
    if getattr(hf_config, "model_type", "") != "whisper":
        return None
    folder = Path(str(getattr(model_config, "model", "")))
    if folder.is_dir():
        found = vocabulary_by_file(folder / "generation_config.json")
        if found is not None:
            return found
    return vocabulary_by_size(int(getattr(hf_config, "vocab_size", 0) or 0))
