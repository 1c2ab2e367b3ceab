"""What the output of a text request is learned by: its type, and the size of its prompt.

Output hardly follows the prompt along a line (R² of .00 to .01 on production traces), but each
application has prompts of its own sizes: on the Azure 2023 conversation trace the mean error of
half octaves is 54 tokens, of octaves 61, of one median 144 (benchmarks/service.py). Standard
library only, as `sched_client.model`.
"""

import math
from typing import Final

_MARK: Final = "/"
# A prompt of ten million tokens, the most that is learned from, is in the 47th half octave.
_MOST_HALF_OCTAVES: Final = 47


def text_class(request_type: str, prompt_tokens: int) -> str:
    """Name a text request's class, which stands in its key in place of a language.

    Parameters
    ----------
    request_type : str
        The caller's own; empty where unknown, or not trusted.
    prompt_tokens : int
        Length of the prompt, ≥ 0.

    Returns
    -------
    str
        The type, and the half octave of the prompt.

    Examples
    --------
    >>> text_class("chat", 1024), text_class("", 1448), text_class("", 1449)
    ('chat/21', '/21', '/22')
    """
    return f"{request_type}{_MARK}{(prompt_tokens * prompt_tokens).bit_length()}"


def size_class(name: str) -> str:
    """Give the class without its type, or an empty string where there is none.

    Examples
    --------
    >>> size_class("a/b/21"), size_class("/21"), size_class("chat")
    ('/21', '/21', '')
    """
    _, mark, size = name.rpartition(_MARK)
    return mark + size if mark else ""


def class_bounds(name: str) -> tuple[float, float]:
    """Give the smallest and largest prompt of a class, or of all where it names no size.

    Examples
    --------
    >>> class_bounds("chat/21")
    (1024.0, 1448.0)
    """
    size = name.rpartition(_MARK)[2]
    if not (size.isascii() and size.isdecimal() and 0 < int(size) <= _MOST_HALF_OCTAVES):
        return 1.0, 2.0 ** (_MOST_HALF_OCTAVES / 2)
    octaves = int(size)
    least = math.isqrt((1 << (octaves - 1)) - 1) + 1
    return float(least), float(math.isqrt((1 << octaves) - 1))
