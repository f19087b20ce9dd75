// torch::tensor, which is another function than at::tensor: a number is no list of one, floating
// point is the default dtype, integers are int64. As torch/csrc/autograd/generated/
// variable_factories.h has it; added for sources that name it.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Logging.h>
#include <torch/types.h>

#ifdef AT_PER_OPERATOR_HEADERS
#include <torch/csrc/api/include/torch/detail/TensorDataContainer.h>
#else
#define AT_PER_OPERATOR_HEADERS
#include <torch/csrc/api/include/torch/detail/TensorDataContainer.h>
#undef AT_PER_OPERATOR_HEADERS
#endif

namespace torch {
inline at::Tensor tensor(detail::TensorDataContainer data, const at::TensorOptions& options = {}) {
  at::Tensor made = data.convert_to_tensor(options.requires_grad(::std::nullopt));
  made.set_requires_grad(options.requires_grad());
  return made;
}
} // namespace torch
