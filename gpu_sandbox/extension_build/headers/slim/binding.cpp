// The half of slim/binding.h that knows pybind11: compiled once per toolchain against
// torch's real headers, and linked into every extension.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#define SLIM_BINDING_RUNTIME
#include <slim/binding.h>

namespace slim_binding {
namespace real = ::pybind11;

namespace {

struct Bound {
  Invoke invoke;
  const void* target;
  bool translates;
};

PyObject* translated(const Bound& bound, PyObject* const* in, const bool* convert) {
  HANDLE_TH_ERRORS
  return bound.invoke(bound.target, in, convert);
  END_HANDLE_TH_ERRORS_PYBIND
}

real::handle dispatch(real::detail::function_call& call) {
  const auto& bound = *static_cast<const Bound*>(call.func.data[0]);
  std::vector<PyObject*> in(call.args.size());
  const auto convert = std::make_unique<bool[]>(call.args.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = call.args[i].ptr();
    convert[i] = call.args_convert[i];
  }
  return bound.translates ? translated(bound, in.data(), convert.get())
                          : bound.invoke(bound.target, in.data(), convert.get());
}

std::string signature_of(const Definition& definition) {
  std::string text = "(";
  for (std::size_t i = 0; i < definition.count; ++i) {
    text += (i ? ", {" : "{") + definition.arguments[i]() + "}";
  }
  return text + ") -> " + definition.result();
}

class Function : public real::cpp_function {
 public:
  Function(const real::module_& module, const Definition& definition) {
    auto record = make_function_record();
    record->data[0] = new Bound{definition.invoke, definition.target, definition.translates};
    record->impl = &dispatch;
    record->nargs_pos = static_cast<std::uint16_t>(definition.count);
    const real::object before = real::getattr(module, definition.name, real::none());
    real::detail::process_attributes<real::name, real::scope, real::sibling>::init(
        real::name(definition.name), real::scope(module), real::sibling(before), record.get());
    if (definition.doc) record->doc = const_cast<char*>(definition.doc);
    for (const auto& each : definition.annotations) {
      record->args.emplace_back(
          each.name, nullptr, real::handle(each.value), each.convert, each.none);
    }
    static const std::type_info* const no_types[] = {nullptr};
    initialize_generic(
        std::move(record), signature_of(definition).c_str(), no_types, definition.count);
  }
};

std::string with_inner(std::string pattern, const std::string& inner) {
  const std::string placeholder = real::detail::make_caster<bool>::name.text;
  for (auto at = pattern.find(placeholder); at != std::string::npos;
       at = pattern.find(placeholder, at + inner.size())) {
    pattern.replace(at, placeholder.size(), inner);
  }
  return pattern;
}

} // namespace

void define(PyObject* module, const Definition& definition) {
  const auto owner = real::reinterpret_borrow<real::module_>(module);
  if (!definition.annotations.empty() && definition.annotations.size() != definition.count) {
    throw std::runtime_error(
        "The number of argument annotations does not match the number of function arguments");
  }
  PyModule_AddObject(
      module, definition.name, Function(owner, definition).release().ptr());
}

void set_doc(PyObject* module, const char* text) {
  real::handle(module).attr("__doc__") = text;
}

PyObject* create(const char* name, void (*fill)(module_&)) {
  try {
    real::detail::get_internals();
    auto module =
        real::module_::create_extension_module(name, nullptr, new real::module_::module_def{});
    module_ wrapped(module.ptr());
    fill(wrapped);
    return module.release().ptr();
  } catch (real::error_already_set& error) {
    real::raise_from(error, PyExc_ImportError, "initialization failed");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
  }
  return nullptr;
}

std::string name_of_vector(const std::string& inner) {
  return with_inner(real::detail::make_caster<std::vector<bool>>::name.text, inner);
}

std::string name_of_optional(const std::string& inner) {
  return with_inner(real::detail::make_caster<std::optional<bool>>::name.text, inner);
}

std::string name_of_tuple(const std::vector<std::string>& inner) {
  std::string joined;
  for (const auto& each : inner) joined += (joined.empty() ? "" : ", ") + each;
  return with_inner(real::detail::make_caster<std::tuple<bool>>::name.text, joined);
}

PyObject* items_for_vector(PyObject* src, bool convert) {
  std::vector<real::object> items;
  real::detail::make_caster<std::vector<real::object>> caster;
  if (!caster.load(src, convert)) return nullptr;
  return real::cast(real::detail::cast_op<std::vector<real::object>&>(caster)).release().ptr();
}

PyObject* items_for_tuple(PyObject* src, std::size_t count) {
  if (!PySequence_Check(src)) return nullptr;
  PyObject* items = PySequence_Tuple(src);
  if (items == nullptr) PyErr_Clear();
  if (items != nullptr && PyTuple_GET_SIZE(items) != static_cast<Py_ssize_t>(count)) {
    Py_CLEAR(items);
  }
  return items;
}

#define SLIM_BINDING_DEFINE(T)                                                             \
  bool Caster<T>::load(PyObject* src, bool convert, T& into) {                             \
    real::detail::make_caster<T> caster;                                                   \
    if (!caster.load(src, convert)) return false;                                          \
    into = real::detail::cast_op<T>(std::move(caster));                                    \
    return true;                                                                           \
  }                                                                                        \
  PyObject* Caster<T>::cast(const T& value) {                                              \
    return real::detail::make_caster<T>::cast(value, real::return_value_policy::move, {})  \
        .ptr();                                                                            \
  }                                                                                        \
  std::string Caster<T>::name() {                                                          \
    return real::detail::make_caster<T>::name.text;                                        \
  }
SLIM_BINDING_PLAIN_TYPES(SLIM_BINDING_DEFINE)

bool Caster<at::IntArrayRef>::load(PyObject* src, bool convert, Held& into) {
  real::detail::make_caster<at::IntArrayRef> caster;
  if (!caster.load(src, convert)) return false;
  into = real::detail::cast_op<at::IntArrayRef&>(caster).vec();
  return true;
}

PyObject* Caster<at::IntArrayRef>::cast(const at::IntArrayRef& value) {
  return real::detail::make_caster<at::IntArrayRef>::cast(
             value, real::return_value_policy::move, {})
      .ptr();
}

std::string Caster<at::IntArrayRef>::name() {
  return real::detail::make_caster<at::IntArrayRef>::name.text;
}

std::string Caster<void>::name() {
  return real::detail::make_caster<real::detail::void_type>::name.text;
}

} // namespace slim_binding
