// Slim torch/torch.h: sources include it for tensors, seldom for the C++ frontend.
#pragma once

#include <torch/types.h>
