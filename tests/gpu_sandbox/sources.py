"""Tasks and candidates of our own, small enough for two cores."""

from __future__ import annotations

ADD_RELU = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a + b)


def get_inputs():
    return [torch.randn(64, 128), torch.randn(64, 128)]


def get_init_inputs():
    return []
"""

LINEAR = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, bias=True):
        super().__init__()
        self.linear = nn.Linear(n, n, bias=bias)
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.rand(64, 128)]


def get_init_inputs():
    return [128]
"""


def as_candidate(task: str) -> str:
    """The reference itself, under the candidate's name."""
    return task.replace("class Model(", "class ModelNew(").replace(
        "super(Model,", "super(ModelNew,"
    )


def candidate(forward: str, *, before: str = "", init: str = "") -> str:
    """A ``ModelNew`` for ``ADD_RELU`` with the given body lines."""
    constructor = (
        f"    def __init__(self):\n        super().__init__()\n        {init}\n" if init else ""
    )
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return (
        "import torch\nimport torch.nn as nn\n"
        f"{before}\n\n\nclass ModelNew(nn.Module):\n{constructor}"
        f"    def forward(self, a, b):\n{body}\n"
    )


HONEST = candidate("return (a + b).clamp_(min=0)")
SLOWER = candidate("for _ in range(4):\n    out = torch.relu(a + b)\nreturn out")

CPP = """
#include <torch/extension.h>

torch::Tensor add_relu(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "sizes differ");
  auto out = torch::empty_like(a);
  const float* x = a.data_ptr<float>();
  const float* y = b.data_ptr<float>();
  float* z = out.data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    z[i] = std::max(x[i] + y[i], 0.0f);
  }
  return out;
}
"""


def inline(cpp: str, *, late: bool = False, **options: str) -> str:
    """A candidate with a C++ extension, built on import or, ``late``, in its constructor."""
    extra = "".join(f", {name}={value}" for name, value in options.items())
    build = f'load_inline(name="add_relu", cpp_sources=SOURCE, functions=["add_relu"]{extra})'
    return candidate(
        "return self.ext.add_relu(a, b)",
        before=(
            "from torch.utils.cpp_extension import load_inline\n\n"
            f'SOURCE = """{cpp}"""\n' + ("" if late else f"EXT = {build}\n")
        ),
        init=f"self.ext = {build if late else 'EXT'}",
    )


ODD_TYPES = '''
import torch
import torch.nn as nn


class Model(nn.Module):
    """Nested inputs of many types, a dict with a tuple out."""

    def __init__(self, scale, *, shift):
        super().__init__()
        self.scale = scale
        self.shift = shift

    def forward(self, pair, options, index, half, nothing):
        a, b = pair
        total = (a + b) * self.scale + self.shift
        chosen = total[index]
        if options["negate"] and nothing is None:
            chosen = -chosen
        return {"chosen": chosen, "more": (half * 2, index + 1, a > b), "count": 3}


def get_inputs():
    return [
        (torch.rand(8, 4), torch.rand(4, 8).t()),
        {"negate": True, "rate": 0.5},
        torch.randint(0, 8, (5,)),
        torch.rand(3, dtype=torch.bfloat16),
        None,
    ]


def get_init_inputs():
    return [[2.0], {"shift": 1}]
'''
