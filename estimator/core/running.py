"""Who runs now, as far as clients have said: lower bounds for keys that are young.

Owns the bounded table. It is no part of what is learned: it is not saved, and a replay without it
gives the same state. Time comes from outside.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from estimator.core.censored import Bound
from estimator.core.observation import MAX_AUDIO_S, MAX_NAME_LENGTH, MAX_TOKENS, MAX_UNIX_S
from sched_client.model import Key, RequestKind

# Requests of one report, of all clients together, and for one key: a fit takes some 1 µs for each
# of the last, three or four times, and a list changes seven keys or so.
MAX_REPORTED: Final = 256
_MAX_HELD: Final = 2048
_MAX_OF_KEY: Final = 64
# Keys with bounds, those that run most. An engine has seven or so; 2,048 requests of as many young
# keys held what is published for 150 ms, which nothing may do on an event loop.
_MAX_KEYS: Final = 128
# A client that is alive reports at least every 10 s while it runs something.
SILENCE_S: Final = 30.0


class Running(NamedTuple):
    """One request that has not finished.

    Attributes
    ----------
    key : Key
        The key it will teach.
    size : float
        What its tokens are counted against: seconds of audio, or prompt tokens.
    tokens : int
        Output so far, ≥ 0.
    request_hash : str
        The hash that its completion will bear; empty if unknown.
    started_s : float
        Unix time of its first admission; 0 if unknown.
    """

    key: Key
    size: float
    tokens: int
    request_hash: str = ""
    started_s: float = 0.0


def running_of(
    key: Key,
    kind: RequestKind,
    *,
    audio_s: float | None,
    prompt_tokens: int,
    tokens: int,
    request_hash: str = "",
    started_s: float = 0.0,
) -> Running | None:
    """Give what a running request is to κ.

    Parameters
    ----------
    key : Key
        As in its completion.
    kind : {"transcription", "detection", "beam_step", "session", "text"}
        As in its completion.
    audio_s : float or None
        Seconds of audio.
    prompt_tokens, tokens : int
        Prompt, and output so far.
    request_hash : str
        As in its completion.
    started_s : float
        As in `Running`.

    Returns
    -------
    Running or None
        None where its completion will teach nothing, or where a value is outside the limits of
        `estimator.core.observation`: it is a hint, and not worth an error.
    """
    if not (
        0 <= tokens <= MAX_TOKENS
        and 0 <= prompt_tokens <= MAX_TOKENS
        and 0.0 <= started_s <= MAX_UNIX_S
    ):
        return None
    names = (key.model, key.task, key.language, request_hash)
    if max(map(len, names)) > MAX_NAME_LENGTH:
        return None
    size: float | None = None
    if kind == "text" and key.task == "text":
        size = float(prompt_tokens)
    # NaN fails the comparison.
    elif kind == "transcription" and key.task != "text" and 0.0 < (audio_s or 0.0) <= MAX_AUDIO_S:
        size = audio_s
    return None if size is None else Running(key, size, tokens, request_hash, started_s)


class _Client(NamedTuple):
    running: dict[str | int, Running]
    noted_s: float


class RunningTable:
    """The newest list of each client.

    Attributes
    ----------
    version : int
        Counts changes.
    """

    def __init__(self) -> None:
        self.version = 0
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._n_held = 0

    def __len__(self) -> int:
        return self._n_held

    def note(self, client_id: str, running: Sequence[Running], now_s: float) -> None:
        """Replace a client's list; an empty one forgets it.

        Parameters
        ----------
        client_id : str
            Who says so.
        running : sequence of Running
            At most `MAX_REPORTED` are kept.
        now_s : float
            Seconds of any clock that does not jump back.
        """
        self._forget(client_id)
        listed = running[:MAX_REPORTED]
        if listed:
            # Those without a hash stay until the next list.
            held = {one.request_hash or index: one for index, one in enumerate(listed)}
            self._clients[client_id] = _Client(held, now_s)
            self._n_held += len(held)
            self.version += 1
        while self._n_held > _MAX_HELD:
            self._forget(next(iter(self._clients)))

    def finish(self, client_id: str, request_hash: str) -> None:
        """Forget a request whose completion has come."""
        client = self._clients.get(client_id)
        if client is not None and client.running.pop(request_hash, None) is not None:
            self._n_held -= 1
            self.version += 1
            if not client.running:
                # Only what is held is bounded, so a client that holds nothing must not stay.
                del self._clients[client_id]

    def expire(self, now_s: float) -> bool:
        """Forget clients that have been silent for `SILENCE_S`; say whether there were any."""
        before = self.version
        while self._clients:
            client_id, client = next(iter(self._clients.items()))
            if now_s - client.noted_s < SILENCE_S:
                break
            self._forget(client_id)
        return self.version != before

    def bounds(self) -> dict[Key, list[Bound]]:
        """Give the bounds of each key and of its parents, as completions teach them.

        Of too many keys those that most requests run of.
        """
        table: dict[Key, list[Bound]] = {}
        for client in self._clients.values():
            for key, size, tokens, _, started_s in client.running.values():
                bound = Bound(size, float(tokens), started_s=started_s)
                for member in key.chain():
                    # Text requests are counted in another unit than the parents of their task.
                    if key.task == "text" and member.task != "text":
                        break
                    table.setdefault(member, []).append(bound)
        listed_most = sorted(table.items(), key=lambda item: -len(item[1]))[:_MAX_KEYS]
        return {key: _thinned(listed) for key, listed in listed_most}

    def _forget(self, client_id: str) -> None:
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._n_held -= len(client.running)
            self.version += 1


def _thinned(bounds: list[Bound]) -> list[Bound]:
    """Keep an even part of many: which ones must not depend on how long they have run."""
    n = len(bounds)
    step = -(-n // _MAX_OF_KEY)
    if step <= 1:
        return bounds
    kept = bounds[::step]
    return [bound._replace(weight=n / len(kept)) for bound in kept]
