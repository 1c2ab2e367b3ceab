"""Blocks of the KV cache: how many are free, and how many each coming step will take.

A decoding request takes a block each time its context has filled the last one, so which step
that is depends on its context modulo the block size alone, and stays so while it decodes. A
count for each such phase says what any number of steps will need without a look at a request.
"""

__all__ = ["KvBlocks"]


class KvBlocks:
    """The pool of an engine.

    Parameters
    ----------
    blocks : int
        Blocks that requests can hold.
    block_size : int
        Tokens in a block.
    per_request : int
        Blocks that a request holds besides its tokens'.

    Attributes
    ----------
    free : int
        Blocks that nobody holds.
    size : int
        Tokens in a block.
    """

    __slots__ = ("_decoding", "_per_request", "_phases", "free", "size")

    def __init__(self, blocks: int, block_size: int, per_request: int) -> None:
        self.free = blocks
        self.size = block_size
        self._per_request = per_request
        # By step modulo block size: the requests that need another block in it.
        self._phases = [0] * block_size
        self._decoding = 0

    def of(self, tokens: int) -> int:
        """Give the blocks that a request with so many tokens in its context holds."""
        return self._per_request - -tokens // self.size

    def phase(self, step: int, tokens: int) -> int:
        """Give the phase of a request whose context is so long once this step is done.

        Its next block is due in a step that is equal to the phase modulo the block size.
        """
        return (step + 1 - tokens) % self.size

    def join(self, phase: int) -> None:
        """Count a request that decodes from the next step on."""
        self._phases[phase] += 1
        self._decoding += 1

    def leave(self, phase: int) -> None:
        """Count it no more."""
        self._phases[phase] -= 1
        self._decoding -= 1

    def due(self, step: int) -> int:
        """Give the blocks that a step needs for those that decode."""
        return self._phases[step % self.size]

    def fitting(self, step: int, most: int) -> int:
        """Give how many steps from this one on the free blocks last for.

        Parameters
        ----------
        step : int
            The first step.
        most : int
            As many as are asked about, ≥ 0.

        Returns
        -------
        int
            At most ``most``; O(block size).
        """
        if self.needed(step, most) <= self.free:
            return most
        # Some step of the last turn is one too many.
        turns = self.free // self._decoding if self._decoding else 0
        fitting, left = turns * self.size, self.free - turns * self._decoding
        while fitting < most and self.due(step + fitting) <= left:
            left -= self.due(step + fitting)
            fitting += 1
        return fitting

    def needed(self, step: int, steps: int) -> int:
        """Give the blocks that so many steps from this one on take."""
        turns, rest = divmod(steps, self.size)
        total = turns * self._decoding
        if rest:
            first = step % self.size
            total += sum(self._phases[first : first + rest])
            if first + rest > self.size:
                total += sum(self._phases[: first + rest - self.size])
        return total
