// Slim stand-in, for the same reason: the real one pulls in all of IValue.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

namespace c10 {
template <typename T>
class IListRef;
} // namespace c10

namespace at {
using ITensorListRef = c10::IListRef<at::Tensor>;
using IOptTensorListRef = c10::IListRef<at::OptionalTensorRef>;

inline std::optional<Device> device_of(const Tensor& t) {
  return t.defined() ? std::make_optional(t.device()) : std::nullopt;
}

inline std::optional<Device> device_of(const std::optional<Tensor>& t) {
  return t.has_value() ? device_of(*t) : std::nullopt;
}
} // namespace at
