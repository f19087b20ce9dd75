"""One pass, four scalars; does not compile: accessor without its dimension."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = r"""
#include <torch/extension.h>
#include <algorithm>
#include <limits>

torch::Tensor forward(torch::Tensor returns) {
  TORCH_CHECK(returns.scalar_type() == torch::kFloat32, "returns must be float32");
  returns = returns.contiguous();
  const int64_t paths = returns.size(0);
  const int64_t steps = returns.size(1);
  auto out = torch::empty({paths, 3}, returns.options());
  const float* in = returns.data_ptr<float>();
  auto rows = out.accessor<float>();
#pragma omp parallel for schedule(static)
  for (int64_t path = 0; path < paths; ++path) {
    const float* r = in + path * steps;
    double price = 0.0;
    double mark = -std::numeric_limits<double>::infinity();
    double fall = 0.0;
    double total = 0.0;
    for (int64_t t = 0; t < steps; ++t) {
      price += r[t];
      mark = std::max(mark, price);
      fall = std::max(mark - price, fall);  // in this order a NaN stays
      total += price;
    }
    rows[path][0] = (float)price;
    rows[path][1] = (float)fall;
    rows[path][2] = (float)(total / steps);
  }
  return out;
}
"""

extension = load_inline(
    name="drawdown_cpp",
    cpp_sources=CPP,
    functions=["forward"],
    extra_cflags=["-O3", "-march=native", "-fno-trapping-math", "-fopenmp"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def forward(self, returns: torch.Tensor) -> torch.Tensor:
        return extension.forward(returns)
