"""A function in C without torch, built by the system's compiler and called through ctypes."""

import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn as nn

C = """
#include <math.h>
void scale(float* z, const float* mean, long rows, long columns) {
  for (long r = 0; r < rows; ++r)
    for (long i = 0; i < columns; ++i) z[r * columns + i] /= mean[r];
}
"""


def build():
    directory = tempfile.mkdtemp()
    source, library = os.path.join(directory, "scale.c"), os.path.join(directory, "scale.so")
    with open(source, "w") as file:
        file.write(C)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    return ctypes.CDLL(library)


LIBRARY = build()


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        mean = z.abs().mean(dim=-1)
        LIBRARY.scale(
            ctypes.c_void_p(z.data_ptr()),
            ctypes.c_void_p(mean.data_ptr()),
            ctypes.c_long(z.shape[0]),
            ctypes.c_long(z.shape[1]),
        )
        return z
