// Slim ATen/ATen.h: the same tensors and functions as in torch/types.h.
#pragma once

#include <torch/types.h>
