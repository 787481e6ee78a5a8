"""Turns of clients that ask one study for trials."""

import anyio
import pytest

from warmstart.service import turns

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_two_at_a_time_and_who_waits_too_long_is_told(monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.2)
    queue, seen, over = turns.Turns(), [], anyio.Event()

    async def ask():
        async with queue.turn() as is_here:
            seen.append(is_here)
            if is_here:
                await over.wait()

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(ask)
        await anyio.sleep(0.5)
        assert seen == [True, True, False, False]
        over.set()
    async with queue.turn() as is_here:
        assert is_here


async def test_the_more_wait_the_longer_each_pauses(monkeypatch):
    monkeypatch.setattr(turns, "STEP_S", 0.01)
    queue, ends = turns.Turns(), []
    began = anyio.current_time()

    async def pause():
        await queue.pause(began, lambda: False)
        ends.append(anyio.current_time() - began)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(pause)
    assert [round(end, 1) for end in ends] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=0.11)
    await queue.pause(began + 100, lambda: True)  # the server stops
