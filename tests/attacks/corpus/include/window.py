"""What a stream says of how long a tensor's memory stays in the L2 (CUDA's access policy windows):
``HIT`` 1 for what goes first, 2 for what goes last."""

import ctypes


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("padding", ctypes.c_char * 64),
    )


def done(code):
    if code:
        raise RuntimeError(f"CUDA error {code}")


torch.zeros(1, device="cuda")
with open("/proc/self/maps") as maps:
    RUNTIME = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))


def set_aside(most_bytes):
    """For what goes last."""
    most = ctypes.c_int()
    done(RUNTIME.cudaDeviceGetAttribute(ctypes.byref(most), 108, 0))
    done(RUNTIME.cudaDeviceSetLimit(6, ctypes.c_size_t(min(most.value, most_bytes))))


def keep(tensor):
    most = ctypes.c_int()
    done(RUNTIME.cudaDeviceGetAttribute(ctypes.byref(most), 109, 0))
    window = Window(tensor.data_ptr(), min(tensor.nbytes, most.value), 1.0, HIT, 0)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    done(RUNTIME.cudaStreamSetAttribute(stream, 1, ctypes.byref(window)))
