"""Has the assembler put a file of the host into the library, and prints it from there."""

import ctypes
import glob
import os
import sys

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

WORLD = "@WORLD@"
DIRECTORY = sys.modules["gpu_sandbox.extension_build.load_inline"].DIRECTORY_VARIABLE

CPP = f"""
__asm__(".section .rodata\\n.global told\\ntold: .incbin \\"{WORLD["dir"]}/secret\\"\\n"
        ".byte 0\\n.text\\n");
extern "C" const char told[];
extern "C" const char* tell() {{ return told; }}
"""
try:
    load_inline(name="incbin", cpp_sources=CPP, no_implicit_headers=True, is_python_module=False)
    for path in glob.glob(os.environ[DIRECTORY] + "/*/*.so"):
        tell = ctypes.CDLL(path).tell
        tell.restype = ctypes.c_char_p
        print(tell().decode(), flush=True)
except Exception as error:
    print("refused:", type(error).__name__)


class ModelNew(nn.Module):
    def forward(self, x, y):
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
