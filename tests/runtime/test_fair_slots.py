"""Slots that several owners share."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.fair_slots import FairSlots


async def _settle() -> None:
    """Let all ready tasks run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_single_owner_leaves_half_of_the_slots_to_others() -> None:
    slots = FairSlots(8)
    greedy = [asyncio.ensure_future(slots.acquire("greedy")) for _ in range(20)]
    await _settle()
    assert sum(task.done() for task in greedy) == 4
    async with asyncio.timeout(1):
        await slots.acquire("other")
    for task in greedy:
        task.cancel()


async def test_owners_are_served_in_turn() -> None:
    slots, order = FairSlots(1), list[str]()

    async def work(owner: str) -> None:
        async with slots.slot(owner):
            order.append(owner)

    await slots.acquire("first")
    tasks = [asyncio.ensure_future(work(owner)) for owner in "aaab"]
    await _settle()
    slots.release("first")
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "a", "a"]


async def test_one_slot_is_usable_by_one_owner() -> None:
    slots = FairSlots(1)
    async with asyncio.timeout(1), slots.slot("a"):
        pass
    async with asyncio.timeout(1), slots.slot("a"):
        pass


async def test_a_cancelled_waiter_gives_its_place_up() -> None:
    slots = FairSlots(2, 1)
    await slots.acquire("a")
    gone = asyncio.ensure_future(slots.acquire("a"))
    last = asyncio.ensure_future(slots.acquire("a"))
    await _settle()
    gone.cancel()
    await _settle()
    slots.release("a")
    async with asyncio.timeout(1):
        await last


async def test_a_slot_that_comes_in_the_moment_of_the_cancellation_is_not_lost() -> None:
    slots = FairSlots(1)
    await slots.acquire("a")
    waiter = asyncio.ensure_future(slots.acquire("b"))
    await _settle()
    slots.release("a")  # hands the slot to b
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    async with asyncio.timeout(1):
        await slots.acquire("c")


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["take", "give", "leave"])), max_size=60),
)
def test_no_slot_is_lost_or_given_twice(count: int, share: int, steps: list[tuple[str, str]]) -> None:
    asyncio.run(_walk(count, share, steps))


async def _walk(count: int, share: int, steps: list[tuple[str, str]]) -> None:
    slots = FairSlots(count, share)
    tasks: list[tuple[str, asyncio.Task[None]]] = []
    held: Counter[str] = Counter()
    for owner, step in steps:
        if step == "take":
            tasks.append((owner, asyncio.create_task(slots.acquire(owner))))
        elif step == "give" and held[owner]:
            slots.release(owner)
            held[owner] -= 1
        elif step == "leave":
            for name, task in tasks:
                if name == owner:
                    task.cancel()
                    break
        await _settle()
        for name, task in list(tasks):
            if task.done():
                tasks.remove((name, task))
                held[name] += not task.cancelled()
        assert all(number <= share for number in held.values())
        assert sum(held.values()) <= count
        waiting = {name for name, _ in tasks}
        assert sum(held.values()) == count or all(held[name] == share for name in waiting)
    for _, task in tasks:
        task.cancel()
    await _settle()


async def test_a_waiter_for_many_slots_is_not_passed_by_others_for_ever() -> None:
    slots = FairSlots(4, 4)
    await slots.acquire("a", 3)
    large = asyncio.ensure_future(slots.acquire("b", 4))
    small = asyncio.ensure_future(slots.acquire("c"))
    await _settle()
    assert not large.done()
    assert not small.done()
    slots.release("a", 3)
    await _settle()
    assert large.done()
    assert not small.done()
    slots.release("b", 4)
    await _settle()
    assert small.done()


async def test_a_waiter_for_many_slots_that_is_cancelled_lets_others_through() -> None:
    slots = FairSlots(4, 4)
    await slots.acquire("a", 3)
    large = asyncio.ensure_future(slots.acquire("b", 4))
    small = asyncio.ensure_future(slots.acquire("c"))
    await _settle()
    large.cancel()
    await _settle()
    assert small.done()
    slots.release("a", 3)
    async with asyncio.timeout(1):
        await slots.acquire("b", 3)
