"""GateChannel over memory that two real processes share."""

from __future__ import annotations

import ctypes
import os
import time

import pytest
import torch

from gpu_sandbox.ipc.worker_messages import ArenaShared
from gpu_sandbox.tensors.gate_channel import GateChannel
from gpu_sandbox.tensors.shared_arena import Arena


@pytest.mark.process
def test_a_hundred_turns_between_two_processes() -> None:
    cpu = torch.device("cpu")
    ours = Arena.create(GateChannel.size(1, 1), cpu)
    turns = GateChannel(ours, 1)
    turns.reset()
    pid = os.fork()
    if pid == 0:
        shared = ArenaShared(total_bytes=ours.size, host=True)
        theirs = GateChannel(Arena.open(shared, os.dup(ours.descriptor), cpu), 1)
        deadline = time.monotonic() + 20
        for number in range(1, 101):
            if not GateChannel.wait(theirs.given, number, lambda: time.monotonic() < deadline):
                os._exit(1)
            theirs.done.value = number
        os._exit(0)
    deadline = time.monotonic() + 20
    for number in range(1, 101):
        assert turns.done.value == number - 1
        turns.given.value = number
        assert GateChannel.wait(turns.done, number, lambda: time.monotonic() < deadline)
    assert os.waitpid(pid, 0)[1] == 0
    ours.close()


def test_a_wait_ends_when_it_is_told_to() -> None:
    turns = GateChannel(Arena.create(GateChannel.size(1, 1), torch.device("cpu")), 1)
    turns.reset()
    assert not GateChannel.wait(turns.done, 1, lambda: False)
    turns.done.value = 3
    assert GateChannel.wait(turns.done, 2, lambda: pytest.fail("it was asked for nothing"))


def test_keys_that_will_never_come_keep_nobody_waiting() -> None:
    turns = GateChannel(Arena.create(GateChannel.size(4, 4), torch.device("cpu")), 4)
    turns.reset()
    with turns.opened_on_error():
        turns.give(0, bytes(range(32)))
    assert turns.given.value == 1
    with pytest.raises(RuntimeError), turns.opened_on_error():
        raise RuntimeError
    assert GateChannel.wait(turns.given, 4, lambda: False)


def test_what_calls_commit_to_lies_beside_the_keys_and_is_gone_in_the_next_release() -> None:
    turns = GateChannel(Arena.create(GateChannel.size(3, 5), torch.device("cpu")), 5)
    turns.reset()
    keys, plain = [bytes([k]) * 32 for k in (1, 2, 3)], [bytes([64 + k]) * 16 for k in range(5)]
    for number, key in enumerate(keys):
        turns.give(number, key)
    for call, digest in enumerate(plain):
        turns.commit(call, digest)
    assert turns.plain(range(5)) == plain
    assert turns.plain(range(3, 5)) == plain[3:]
    assert [ctypes.string_at(turns.key_at(n), 32) for n in range(3)] == keys
    turns.reset()
    assert turns.plain(range(5)) == [bytes(16)] * 5
