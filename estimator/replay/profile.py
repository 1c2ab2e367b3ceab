"""What an engine's steps cost and what it can hold, as data files.

Owns the fields, their limits, and reading and writing them as JSON.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final

__all__ = ["EngineProfile", "ProfileError", "load_profile", "profile_names"]

_SUFFIX: Final = ".json"
_MAX_SLOTS: Final = 65_536
# An hour for a step, a day for a token: something else than seconds was meant.
_MAX_STEP_S: Final = 3600.0
_MAX_COUNT: Final = 10**9
_MAX_BLOCK: Final = 65_536
_TEXT: Final = ("name", "description", "source")
_SECONDS: Final = (
    "step_s", "per_sequence_s", "admission_s", "mixed_step_s", "per_prompt_token_s",
    "per_context_token_s", "request_overhead_s",
)  # fmt: skip
_OPTIONAL_COUNTS: Final = ("max_admissions_per_step", "max_tokens_per_step", "kv_blocks")
_COUNTS: Final = (
    ("slots", 1, _MAX_SLOTS),
    ("block_size", 1, _MAX_BLOCK),
    ("blocks_per_admission", 0, _MAX_COUNT),
    *((name, 1, _MAX_COUNT) for name in _OPTIONAL_COUNTS),
)


class ProfileError(Exception):
    """A profile cannot be used; the message names the file, the field, the limit, the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """An engine.

    A step costs ``step_s``, and for each running request ``per_sequence_s``, for each token of
    their context ``per_context_token_s``, for each request admitted in it ``admission_s``, for
    each prompt token computed in it ``per_prompt_token_s``, and ``mixed_step_s`` where it admits
    beside running requests. Each cost is rounded to nanoseconds. Nothing is cached of a prompt.

    Attributes
    ----------
    name, description, source : str
        What it is, and where its numbers are from.
    slots : int
        Most running requests (vLLM's ``max_num_seqs``).
    step_s : float
        A step's fixed part.
    per_sequence_s : float
        What a step takes longer for each running request.
    admission_s : float
        What an admission adds to its step: an encoder pass, fixed parts of a prefill. A request
        that is admitted again after a preemption costs it again.
    mixed_step_s : float
        What a step takes longer, once, if it admits while others run: decoding alone is replayed
        from a captured graph, a batch that also holds a prefill is not.
    per_prompt_token_s : float
        What each prompt token adds to the step that computes it; after a preemption the tokens
        that had come out are computed again with it.
    per_context_token_s : float
        What each token whose KV a step reads adds to it: prompts and outputs of all that run.
    max_admissions_per_step : int or None
        vLLM's encoder budget over what one request takes of it; None for no limit.
    max_tokens_per_step : int or None
        vLLM's ``max_num_batched_tokens``, ≥ ``slots``: a running request takes one, an admission
        its prompt. Text that does not fit is computed in chunks; audio waits for another step.
    kv_blocks : int or None
        Blocks that requests can hold: vLLM's ``num_gpu_blocks`` less the one it keeps for
        itself. None for more than will ever be needed.
    block_size : int
        Tokens in a block.
    blocks_per_admission : int
        Blocks that each running request holds besides its tokens' (94 for the 1,500 positions
        that Whisper's decoder attends to).
    request_overhead_s : float
        What a request takes outside the engine, before its first token.

    Raises
    ------
    ProfileError
        If a value is outside its limits.
    """

    name: str
    slots: int
    step_s: float
    description: str = ""
    source: str = ""
    per_sequence_s: float = 0.0
    admission_s: float = 0.0
    mixed_step_s: float = 0.0
    per_prompt_token_s: float = 0.0
    per_context_token_s: float = 0.0
    max_admissions_per_step: int | None = None
    max_tokens_per_step: int | None = None
    kv_blocks: int | None = None
    block_size: int = 16
    blocks_per_admission: int = 0
    request_overhead_s: float = 0.0

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise ProfileError(f"profile {str(self.name)[:60]!r}: {problem}")

    def service_s(self, tokens: float, prompt_tokens: int, concurrency: float = 1.0) -> float:
        """Give the seconds of a request in a batch of constant size.

        Parameters
        ----------
        tokens : float
            Output tokens, ≥ 1.
        prompt_tokens : int
            Prompt tokens, ≥ 0.
        concurrency : float
            Requests in the batch, ≥ 1.

        Returns
        -------
        float
            Its own admission and prompt, and its steps; nothing of the admissions of others.
        """
        per_step_s = self.step_s + self.per_sequence_s * concurrency
        prompt_s = self.per_prompt_token_s * prompt_tokens
        # Its context grows from the prompt to all it has produced.
        context = concurrency * (prompt_tokens + tokens / 2.0)
        reading_s = self.per_context_token_s * context
        return self.admission_s + prompt_s + tokens * (per_step_s + reading_s)

    @property
    def slot_context_tokens(self) -> float:
        """Tokens of KV memory that come to one slot, 0 where it is not what binds or not known.

        As the client inside vLLM says (`sched_client.vllm.capacity`): where each request holds
        blocks beside its tokens', it is not known.
        """
        if self.kv_blocks is None or self.blocks_per_admission:
            return 0.0
        return self.kv_blocks * self.block_size / self.slots

    def to_json(self) -> str:
        """Give the profile as a JSON object that `load_profile` reads."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_mapping(cls, values: dict[str, Any], *, origin: str) -> "EngineProfile":
        """Build a profile from what a JSON object held (hence Any).

        Parameters
        ----------
        values : dict
            Fields by name.
        origin : str
            The file, for messages.

        Raises
        ------
        ProfileError
            If a field is unknown, missing, of the wrong type, or outside its limits.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ProfileError(
                f"{origin}: field {unknown[0]!r} is unknown; use {', '.join(sorted(known))}"
            )
        for name in ("name", "slots", "step_s"):
            if name not in values:
                raise ProfileError(f"{origin}: field {name!r} is missing; every profile needs it")
        try:
            return cls(**values)
        except ProfileError as error:
            raise ProfileError(f"{origin}: {error}") from None


def _problem(profile: EngineProfile) -> str | None:
    for name in _TEXT:
        if not isinstance(getattr(profile, name), str):
            return f"{name} is {getattr(profile, name)!r}, must be text"
    if not profile.name:
        return "name is empty; give it one"
    found = (_problem_of_seconds(name, getattr(profile, name)) for name in _SECONDS)
    problem = next(filter(None, found), None)
    if problem is None:
        found = (
            _problem_of_count(name, getattr(profile, name), least, most)
            for name, least, most in _COUNTS
        )
        problem = next(filter(None, found), None)
    return problem or _contradiction(profile)


def _problem_of_seconds(name: str, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{name} is {value!r}, must be a number of seconds"
    if not (math.isfinite(value) and 0.0 <= value <= _MAX_STEP_S):
        return f"{name} is {value}, must be 0 to {_MAX_STEP_S:g} seconds; check the unit"
    return None


def _problem_of_count(name: str, value: object, least: int, most: int) -> str | None:
    optional = name in _OPTIONAL_COUNTS
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} is {value!r}, must be a whole number{' or null' if optional else ''}"
    if not least <= value <= most:
        return f"{name} is {value}, must be {least} to {most}"
    return None


def _contradiction(profile: EngineProfile) -> str | None:
    if round(profile.step_s * 1e9) + round(profile.per_sequence_s * 1e9) < 1:
        return "a step costs nothing; step_s or per_sequence_s must be at least 1e-9"
    budget, blocks = profile.max_tokens_per_step, profile.kv_blocks
    if budget is not None and budget < profile.slots:
        return (
            f"max_tokens_per_step is {budget}, must be at least slots {profile.slots}, as each "
            "running request takes one token a step; raise it or lower slots"
        )
    if blocks is not None and blocks <= profile.blocks_per_admission:
        return (
            f"kv_blocks is {blocks}, must be above blocks_per_admission "
            f"{profile.blocks_per_admission}, as nothing could ever run; raise it"
        )
    return None


def profile_names() -> tuple[str, ...]:
    """Give the names of the profiles that kappad brings along."""
    folder = resources.files("estimator.replay") / "profiles"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def load_profile(name_or_path: str | Path) -> EngineProfile:
    """Read a profile.

    Parameters
    ----------
    name_or_path : str or Path
        One of `profile_names`, or a file of the operator's own.

    Raises
    ------
    ProfileError
        Naming the file, the field, the value, its limit and the remedy.
    """
    text = str(name_or_path)
    if text in profile_names():
        inside = resources.files("estimator.replay") / "profiles" / f"{text}{_SUFFIX}"
        return _parse(inside.read_text(encoding="utf-8"), f"{text}{_SUFFIX}")
    path = Path(name_or_path)
    if not path.is_file():
        what = "is not a file" if path.exists() else "is neither a profile nor a file"
        raise ProfileError(f"{text}: {what}; name one of {', '.join(profile_names())}, or a file")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from error
    return _parse(content, str(path))


def _parse(content: str, origin: str) -> EngineProfile:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{origin}: no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ProfileError(f"{origin}: not a JSON object; the fields of a profile are its keys")
    return EngineProfile.from_mapping(values, origin=origin)
