import ctypes

import torch

PAGE, MAYMOVE = 4096, 1
mremap = ctypes.CDLL(None, use_errno=True).mremap
mremap.restype = ctypes.c_void_p
mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
again = {}


def elsewhere(x, dtype=None):
    """The same memory, mapped once more: of an old size of zero the old mapping stays."""
    if x.data_ptr() not in again:
        begin = x.data_ptr() // PAGE * PAGE
        ahead = x.data_ptr() - begin
        size = -(-(ahead + x.nbytes) // PAGE) * PAGE
        place = mremap(begin, 0, size, MAYMOVE)
        memory = (ctypes.c_char * size).from_address(place)
        flat = torch.frombuffer(memory, dtype=dtype or x.dtype, offset=ahead, count=x.numel())
        again[x.data_ptr()] = flat.view(x.shape)
    return again[x.data_ptr()]
