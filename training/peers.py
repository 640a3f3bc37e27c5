"""What one rank finds out and every rank must know, over a channel of its own."""

from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist

from rri.errors import RriError

__all__ = ["Peers"]

T = TypeVar("T")


class Peers:
    """All ranks of one start.

    The channel is gloo, whatever the trainer uses: it is also spoken from the thread of the reward, where NCCL would
    take the wrong device. Every rank makes its Peers at the same point, and calls it equally often.

    Args:
        timeout_s: how long one rank may wait for the others.
    """

    def __init__(self, timeout_s: float) -> None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s)) if several else None

    def all(self, own: T) -> list[T]:
        """What each rank found, in order of rank; the same list everywhere."""
        if self._group is None:
            return [own]
        found: list[T] = [own] * dist.get_world_size()
        dist.all_gather_object(found, own, group=self._group)
        return found

    def fail_together(self, own: RriError | None) -> None:
        """Where one rank alone would stop, the others would wait for it in the next collective.

        Raises:
            RriError: what the first rank that found anything found.
        """
        for error in self.all(own):
            if error is not None:
                raise error
