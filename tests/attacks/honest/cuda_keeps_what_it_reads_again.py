"""What it writes and reads again at once stays in the L2 meanwhile, by an access policy window."""

import ctypes

import torch
import torch.nn as nn


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("padding", ctypes.c_char * 64),
    )


torch.zeros(1, device="cuda")
with open("/proc/self/maps") as maps:
    RUNTIME = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = None

    def forward(self, x):
        if self.made is None or self.made.shape != x.shape or self.made.device != x.device:
            self.made = torch.empty_like(x)
            window = Window(self.made.data_ptr(), self.made.nbytes, 1.0, 2, 0)
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            assert not RUNTIME.cudaDeviceSetLimit(6, ctypes.c_size_t(8 << 20))
            assert not RUNTIME.cudaStreamSetAttribute(stream, 1, ctypes.byref(window))
        torch.exp(x - x.amax(dim=-1, keepdim=True), out=self.made)
        return self.made / self.made.sum(dim=-1, keepdim=True)
