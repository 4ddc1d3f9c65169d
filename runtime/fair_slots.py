"""Slots that several owners share, such as reading processes or connections: no owner can take them all.

An owner is whoever must not wait for others: a key, a collection. Free slots go to waiting owners in turn, and to one
owner's waiters in order of arrival. The share leaves slots for an owner that comes later, even if others hold theirs
for long.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A semaphore with a share and a queue for each owner.

    slots: at a time, for all owners together.
    share: at a time, for one owner; by default half of them, and at least one.
    """

    def __init__(self, slots: int, share: int | None = None) -> None:
        self._free = slots
        self._share = max(1, slots // 2) if share is None else share
        self._held: Counter[str] = Counter()
        # Next owner in turn first; how many slots each waiter wants.
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[None], int]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, owner: str = "") -> AsyncIterator[None]:
        """Wait for a slot and hold it during the block. A waiter that is cancelled loses its place."""
        await self.acquire(owner)
        try:
            yield
        finally:
            self.release(owner)

    async def acquire(self, owner: str = "", slots: int = 1) -> None:
        """Wait for slots, at most a share. They come together, and the caller gives them all back by `release`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append((turn, slots))
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came in the same moment
                self.release(owner, slots)
            else:
                self._forget(owner, (turn, slots))
            raise

    def release(self, owner: str = "", slots: int = 1) -> None:
        """Give back slots."""
        self._free += slots
        self._held[owner] -= slots
        if not self._held[owner]:
            del self._held[owner]
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to waiting owners, one each in turn."""
        while self._free:
            wanted = {name: waiters[0][1] for name, waiters in self._waiting.items()}
            owner = next((name for name, slots in wanted.items() if self._held[name] + slots <= self._share), None)
            if owner is None or wanted[owner] > self._free:  # nobody overtakes one who waits for more slots
                return
            turn, slots = self._waiting[owner].popleft()
            if self._waiting[owner]:
                self._waiting.move_to_end(owner)
            else:
                del self._waiting[owner]
            if turn.done():  # cancelled
                continue
            self._free -= slots
            self._held[owner] += slots
            turn.set_result(None)

    def _forget(self, owner: str, waiter: tuple[asyncio.Future[None], int]) -> None:
        if owner in self._waiting and waiter in self._waiting[owner]:
            self._waiting[owner].remove(waiter)
            if not self._waiting[owner]:
                del self._waiting[owner]
            self._hand_out()  # it may have stood before others that want less
