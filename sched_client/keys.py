"""What one κ is learned for, and whom it falls back to. Standard library only."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sched_client.text_class import size_class

__all__ = ["GLOBAL_KEY", "TEXT_TASK", "Key"]

TEXT_TASK: Final = "text"


class Key(NamedTuple):
    """What one κ is learned for; an empty string or None means "any".

    Attributes
    ----------
    model : str
        Served model's name.
    task : str
        ``transcribe``, ``translate`` or ``text``.
    language : str
        Whisper's language code, such as ``en``; of a text request its `text_class`.
    timestamps : bool or None
        Whether the transcript carries timestamp tokens.
    """

    model: str = ""
    task: str = ""
    language: str = ""
    timestamps: bool | None = None

    def chain(self) -> Iterator["Key"]:
        """Yield this key and then its parents, the global key last.

        Parents drop timestamps, then the language, the task and the model. Text requests are
        counted in another unit than what is above their task: they drop timestamps, then the
        request type, then the size of the prompt, and end there.
        """
        model, task, language, _ = seen = self
        yield seen
        parents: tuple[Key, ...]
        if task == TEXT_TASK:
            sized = Key(model, task, size_class(language))
            parents = (Key(model, task, language), sized, Key(model, task))
        else:
            parents = (Key(model, task, language), Key(model, task), Key(model), Key())
        for parent in parents:
            if parent != seen:
                seen = parent
                yield parent


GLOBAL_KEY: Final = Key()
