"""Answers about the leased device for a candidate that is imported where none is visible.

What would really use the device fails, and the worker decides.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def pretend_cuda(facts: dict[str, Any]) -> None:
    major, minor = (int(part) for part in str(facts["compute_capability"]).split("."))
    properties = SimpleNamespace(
        name=facts["name"],
        major=major,
        minor=minor,
        total_memory=facts["memory_bytes"],
        multi_processor_count=facts["sm_count"],
        warp_size=facts.get("warp_size", 32),
        L2_cache_size=facts["l2_bytes"],
        shared_memory_per_block_optin=facts["shared_memory_per_block_bytes"],
        is_integrated=0,
        is_multi_gpu_board=0,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "is_bf16_supported": major >= 8,
        "get_device_capability": (major, minor),
        "get_device_name": facts["name"],
        "get_device_properties": properties,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _always(answer))


def _always(answer: Any) -> Any:
    def ask(*_: Any, **__: Any) -> Any:
        return answer

    return ask
