"""Who the client is to the sidecar. Standard library only."""

from dataclasses import dataclass
from typing import Final

# The API's limit of client_id and of model_id.
_MAX_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class Identity:
    """One engine: a pod may hold several.

    Attributes
    ----------
    client_id : str
        Pod name, data-parallel rank and boot uuid; see `make_client_id`.
    model : str
        Served model's name; only its keys are watched.
    engine_version : str
        Version of vLLM.
    kv_tokens, slots : int
        Tokens whose KV it can hold, and most requests that it runs; 0 where they are not known.
    """

    client_id: str
    model: str
    engine_version: str = ""
    kv_tokens: int = 0
    slots: int = 0


def make_client_id(pod: str, rank: int, boot: str) -> str:
    """Join pod name, data-parallel rank and boot uuid, cutting the pod's name to fit the API.

    Examples
    --------
    >>> make_client_id("whisper-0", 1, "5f0c")
    'whisper-0/1/5f0c'
    """
    tail = f"/{rank}/{boot}"
    return pod[: max(0, _MAX_LENGTH - len(tail))] + tail


def make_model_name(served: str) -> str:
    """Give the served model's name as the API takes it: of a long one, the end.

    Without ``--served-model-name`` it is the path of the weights.

    Examples
    --------
    >>> make_model_name("whisper")
    'whisper'
    >>> make_model_name("/weights/" + "x" * 120 + "/whisper")[-10:]
    'xx/whisper'
    """
    name = served if served.isprintable() else ascii(served)[1:-1]
    return name[-_MAX_LENGTH:]
