// torch::indexing, without all functions: added for sources that name it.
#pragma once

#include <torch/types.h>

#ifdef AT_PER_OPERATOR_HEADERS
#include <ATen/TensorIndexing.h>
#else
#define AT_PER_OPERATOR_HEADERS
#include <ATen/TensorIndexing.h>
#undef AT_PER_OPERATOR_HEADERS
#endif

namespace torch {
namespace indexing = at::indexing;
} // namespace torch
