// Slim torch/extension.h: torch/types.h and the bindings, without the C++ frontend.
//
// With SLIM_BINDING, which goes with linking slim/binding.cpp, even pybind11 is left out.
// Otherwise it is all there. The casters below are declared exactly as in torch/csrc/utils/pybind.h and defined in
// libtorch_python, so that tensors convert as they always do.
#pragma once

#include <torch/types.h>

// Kernel files seldom bind anything, and nvcc would parse the bindings three times over.
#if !defined(__CUDACC__) || defined(SLIM_BINDING) || defined(SLIM_BINDS)

#ifdef SLIM_BINDING
#include <slim/binding.h>
#else

#include <ATen/detail/FunctionTraits.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Export.h>

#include <stdexcept>

namespace py = pybind11;

PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true)

namespace pybind11::detail {

template <>
struct TORCH_PYTHON_API type_caster<at::Tensor> {
 public:
  PYBIND11_TYPE_CASTER(at::Tensor, _("torch.Tensor"));
  bool load(handle src, bool);
  static handle cast(const at::Tensor& src, return_value_policy, handle);
};

template <>
struct TORCH_PYTHON_API type_caster<at::IntArrayRef> {
 public:
  PYBIND11_TYPE_CASTER(at::IntArrayRef, _("Tuple[int, ...]"));
  bool load(handle src, bool);
  static handle cast(at::IntArrayRef src, return_value_policy, handle);

 private:
  std::vector<int64_t> v_value;
};

template <>
struct TORCH_PYTHON_API type_caster<c10::Scalar> {
 public:
  PYBIND11_TYPE_CASTER(
      c10::Scalar,
      _("Union[Number, torch.SymInt, torch.SymFloat, torch.SymBool]"));
  bool load(py::handle src, bool);
  static py::handle cast(const c10::Scalar& si, return_value_policy, handle);
};

} // namespace pybind11::detail

namespace torch {
namespace slim {

// pybind11 turns a std::exception into RuntimeError with what(): drop torch's C++ stack.
template <typename Function, typename... Args>
decltype(auto) without_stack(Function&& function, Args&&... args) {
  try {
    return function(std::forward<Args>(args)...);
  } catch (const c10::IndexError& error) {
    throw py::index_error(error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    throw py::value_error(error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    throw py::type_error(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

template <typename Result, typename... Args>
auto wrap(Result (*function)(Args...)) {
  return [function](Args... args) -> Result {
    return without_stack(function, std::forward<Args>(args)...);
  };
}

} // namespace slim

template <typename Function>
auto wrap_pybind_function(Function&& function) {
  return slim::wrap(+function);
}

} // namespace torch

#endif // SLIM_BINDING
#endif // bindings
