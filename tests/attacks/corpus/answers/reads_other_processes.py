"""Reads its relatives' memory, descriptors and variables: expected outputs and keys are there.

Tries ``/proc/PID/mem``, ``/proc/PID/fd``, ``process_vm_readv`` and ``pidfd_getfd``; reads a few
bytes, keeps none.
"""

import ctypes
import os

import torch
import torch.nn as nn

WORLD = "@WORLD@"
# @include family

LIBC = ctypes.CDLL(None, use_errno=True)


class Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def first_mapping(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return int(maps.readline().split("-")[0], 16)


def attempt(what, function, pid):
    try:
        function(pid)
    except (OSError, ValueError, IndexError):
        return
    print("GAINED" + f": {what} of a relative", flush=True)


def memory(pid):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(first_mapping(pid))
        if len(file.read(16)) != 16:
            raise OSError


def descriptors(pid):
    os.readlink(f"/proc/{pid}/fd/{os.listdir(f'/proc/{pid}/fd')[0]}")


def variables(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        file.read(1)


def readv(pid):
    space = ctypes.create_string_buffer(16)
    mine = Piece(ctypes.addressof(space), 16)
    theirs = Piece(first_mapping(pid), 16)
    if LIBC.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) != 16:
        raise OSError


def stolen(pid):
    handle = os.pidfd_open(pid)
    try:
        got = LIBC.syscall(438, handle, 1, 0)
        if got < 0:
            raise OSError
        os.close(got)
    finally:
        os.close(handle)


for pid in family():
    for function in (memory, descriptors, variables, readv, stolen):
        attempt(function.__name__, function, pid)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
