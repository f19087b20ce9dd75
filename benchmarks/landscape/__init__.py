"""A search simulator: the real core on a made-up kernel landscape. No model, no device.

``terrain`` is the landscape, ``agents`` are the stand-ins that write kernels in it,
``search`` has the engine's own core search there. ``worlds`` and ``variants`` say what is
run, ``rates`` fits the stand-ins to the paper's Table 2, ``measure`` sums up, ``figures``
and ``tables`` show it. ``python -m benchmarks.landscape`` does all of it.
"""
