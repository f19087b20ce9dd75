"""Sealed inputs and digests, against the function that they are defined by."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest
import torch

from gpu_sandbox.cuda.gate_kernels import Kernels
from gpu_sandbox.cuda.nvrtc import compiled
from gpu_sandbox.tensors.gate_layout import KEY_BYTES, StridedRegions, digest_bytes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

_FIRST = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
          0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)  # fmt: skip
_ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXED = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip
_START, _OUTPUT, _KEYED = 1, 2, 16
_SIZE = 5 * 512


def compress(h: list[int], m: list[int], number: int, flags: int) -> list[int]:
    """BLAKE3's, of a block of 64 bytes, as its paper has it, but four rounds."""
    v = [*h, *_FIRST[:4], number & 0xFFFFFFFF, number >> 32, 64, flags]
    for _ in range(4):
        for place, (a, b, c, d) in enumerate(_MIXED):
            for x, turn_d, turn_b in ((m[2 * place], 16, 12), (m[2 * place + 1], 8, 7)):
                v[a] = (v[a] + v[b] + x) & 0xFFFFFFFF
                v[d] = _turned(v[d] ^ v[a], turn_d)
                v[c] = (v[c] + v[d]) & 0xFFFFFFFF
                v[b] = _turned(v[b] ^ v[c], turn_b)
        m = [m[k] for k in _ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)] + [v[i + 8] ^ h[i] for i in range(8)]


def _turned(x: int, by: int) -> int:
    return (x >> by | x << (32 - by)) & 0xFFFFFFFF


def _words(of: bytes) -> list[int]:
    return [int.from_bytes(of[k : k + 4], "little") for k in range(0, len(of), 4)]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    torch.zeros(1, device="cuda:0")
    return Kernels(compiled(torch.device("cuda:0")))


def _memory(size: int) -> torch.Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda:0")


def _whole(memory: torch.Tensor) -> StridedRegions:
    return StridedRegions(memory.data_ptr(), memory.numel(), 0)


def _seal(
    kernels: Kernels, places: StridedRegions, keys: bytes, calls: range = range(1), rounds: int = 1
) -> None:
    there = torch.frombuffer(bytearray(keys), dtype=torch.uint8).to("cuda:0")
    kernels.crypt_inputs(0, places, calls, there.data_ptr(), rounds)
    torch.cuda.synchronize()


def _digest(
    kernels: Kernels, places: StridedRegions, calls: range = range(1), rounds: int = 1
) -> bytes:
    size = rounds * digest_bytes(places.size * len(calls))
    room = torch.zeros(size, dtype=torch.uint8, device="cuda:0")
    kernels.digest(0, places, calls, room.data_ptr(), rounds)
    return room.cpu().numpy().tobytes()


def test_what_is_sealed_is_combined_with_the_keystream(kernels: Kernels) -> None:
    memory = _memory(_SIZE)
    before = memory.cpu().numpy().tobytes()
    key = secrets.token_bytes(KEY_BYTES)
    _seal(kernels, _whole(memory), key)
    stream = [
        word
        for number in range(_SIZE // 64)
        for word in compress(_words(key), [0] * 16, number, _START | _KEYED)
    ]
    expected = [a ^ b for a, b in zip(_words(before), stream, strict=True)]
    assert _words(memory.cpu().numpy().tobytes()) == expected


@pytest.mark.parametrize("size", [1, 64, 130, 5 * 64])
def test_an_output_is_put_where_it_belongs_and_nothing_behind_it(
    kernels: Kernels, size: int
) -> None:
    tensor, to, key = _memory(size), _memory(512), secrets.token_bytes(KEY_BYTES)
    behind, there = to[size:].clone(), torch.frombuffer(bytearray(key), dtype=torch.uint8).cuda()
    kernels.store_encrypted(0, tensor, to[:size], 7, there.data_ptr())
    words = [
        word
        for number in range(7, 7 + -(-size // 64))
        for word in compress(_words(key), [0] * 16, number, _START | _KEYED | _OUTPUT)
    ]
    stream = b"".join(word.to_bytes(4, "little") for word in words)
    expected = bytes(a ^ b for a, b in zip(tensor.tolist(), stream, strict=False))
    assert bytes(to[:size].tolist()) == expected
    assert torch.equal(to[size:], behind)


@pytest.mark.parametrize("lies", ["as its place", "transposed", "askew", "conjugated"])
def test_what_was_put_is_opened_by_the_keys_of_its_rounds(kernels: Kernels, lies: str) -> None:
    """Of three rounds of two calls, each with an output of 40 times 30 behind one of 512 bytes."""
    size = 512 + -(-40 * 30 * 8 // 512) * 512
    memory, keys = _memory(6 * 2 * size), secrets.token_bytes(3 * KEY_BYTES)
    places = StridedRegions(memory.data_ptr(), size, 2 * size)
    there = torch.frombuffer(bytearray(keys), dtype=torch.uint8).cuda()
    tensors = [torch.randn(40, 30, dtype=torch.complex64, device="cuda:0") for _ in range(6)]
    if lies == "transposed":
        tensors = [t.t().contiguous().t() for t in tensors]
    elif lies == "askew":
        tensors = [torch.cat([t.view(-1)[:1], t.view(-1)])[1:].view(40, 30) for t in tensors]
    elif lies == "conjugated":
        tensors = [t.conj() for t in tensors]
    at = [2 * k * size + 512 for k in range(6)]
    tos = [memory[k : k + 40 * 30 * 8].view(torch.complex64).view(40, 30) for k in at]
    for k, (tensor, to) in enumerate(zip(tensors, tos, strict=True)):
        calls = range(k - k % 2, k - k % 2 + 2)
        first = places.block(k, to.data_ptr(), calls)
        kernels.store_encrypted(0, tensor, to, first, there.data_ptr() + k // 2 * KEY_BYTES)
    assert not any(torch.equal(a, b) for a, b in zip(tensors, tos, strict=True))
    kernels.decrypt_outputs(0, places, range(2), there.data_ptr(), 3)
    assert all(torch.equal(a, b) for a, b in zip(tensors, tos, strict=True))


def test_a_key_is_taken_when_the_word_is_given(kernels: Kernels) -> None:
    memory = _memory(_SIZE)
    before, places = memory.clone(), _whole(memory)
    key = secrets.token_bytes(KEY_BYTES)
    _seal(kernels, places, key)
    host = torch.zeros(2, KEY_BYTES, dtype=torch.uint8, pin_memory=True)
    stream = torch.cuda.Stream()
    kernels.wait_for_key(stream.cuda_stream, host[0].data_ptr(), 7, host[1].data_ptr())
    kernels.crypt_inputs(stream.cuda_stream, places, range(1), kernels.taken_at)
    time.sleep(0.1)
    assert not stream.query()
    host[1] = torch.frombuffer(bytearray(key), dtype=torch.uint8)
    host[0, 0] = 7
    stream.synchronize()
    assert torch.equal(memory, before)


@pytest.mark.parametrize("megabytes", [1, 100])
def test_the_key_opens_what_it_sealed_and_touches_nothing_else(
    kernels: Kernels, megabytes: int
) -> None:
    size = megabytes << 18
    memory = _memory(4 * size)
    before = memory.clone()
    places, key = StridedRegions(memory.data_ptr(), size, 2 * size), secrets.token_bytes(KEY_BYTES)
    _seal(kernels, places, key, range(2))
    changed = (memory != before).view(4, size).float().mean(dim=1).tolist()
    assert [round(c, 2) for c in changed] == [1.0, 0.0, 1.0, 0.0]
    _seal(kernels, places, key, range(2))
    assert torch.equal(memory, before)


def test_each_round_has_a_key_and_a_digest_of_its_own(kernels: Kernels) -> None:
    memory = _memory(6 * _SIZE)
    before = memory.clone()
    places, keys = (
        StridedRegions(memory.data_ptr(), _SIZE, _SIZE),
        secrets.token_bytes(3 * KEY_BYTES),
    )
    _seal(kernels, places, keys, range(2), rounds=3)
    digests = [_digest(kernels, places, range(k, k + 2)) for k in range(0, 6, 2)]
    assert _digest(kernels, places, range(2), rounds=3) == b"".join(digests)
    for number in range(3):
        key = keys[number * KEY_BYTES :][:KEY_BYTES]
        _seal(kernels, places, key, range(2 * number, 2 * number + 2))
    assert torch.equal(memory, before)


def test_a_digest_is_a_tree_of_chains(kernels: Kernels) -> None:
    memory = _memory(_SIZE)
    words = _words(memory.cpu().numpy().tobytes())
    blocks = [words[k : k + 16] for k in range(0, len(words), 16)]
    chains = [compress(list(_FIRST), b, k, _START)[:8] for k, b in enumerate(blocks)]
    level = chains + [list(_FIRST)] * (256 - len(chains))
    warps = [_joined(level[k : k + 32]) for k in range(0, 256, 32)]
    assert _words(_digest(kernels, _whole(memory))) == _joined(warps)


def _joined(level: list[list[int]]) -> list[int]:
    while len(level) > 1:
        half = len(level) // 2
        pairs = zip(level[:half], level[half:], strict=True)
        level = [compress(list(_FIRST), a + b, half, 4)[:8] for a, b in pairs]
    return level[0]


@pytest.mark.parametrize("size", [64, 2 << 20, 64 << 20])
def test_one_bit_changes_the_digest(kernels: Kernels, size: int) -> None:
    memory = _memory(size)
    before = _digest(kernels, _whole(memory))
    assert _digest(kernels, _whole(memory)) == before
    memory[secrets.randbelow(size)] ^= 1 << secrets.randbelow(8)
    assert _digest(kernels, _whole(memory)) != before
