// PYBIND11_MODULE and m.def without pybind11's templates, which take seconds to instantiate.
//
// What is here converts, documents, dispatches and raises as pybind11 does, because
// slim/binding.cpp, compiled once and linked into each extension, leaves all of it to
// pybind11: only a call's argument list is known at compile time here. Whatever is missing
// fails to compile with `slim_binding` in the message; it is then built with pybind11 proper.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// clang-format off
#define SLIM_BINDING_PLAIN_TYPES(X)                                                       \
  X(bool) X(signed char) X(unsigned char) X(short) X(unsigned short) X(int) X(unsigned)   \
  X(long) X(unsigned long) X(long long) X(unsigned long long) X(float) X(double)          \
  X(std::string) X(at::Tensor) X(c10::Scalar) X(c10::ScalarType)
// clang-format on

namespace slim_binding __attribute__((visibility("hidden"))) {

// --- slim/binding.cpp

using Invoke = PyObject* (*)(const void* target, PyObject* const* in, const bool* convert);
using Name = std::string (*)();

struct arg_v {
  const char* name;
  bool convert = true;
  bool none = true;
  PyObject* value = nullptr;
};

struct Definition {
  const char* name;
  const char* doc = nullptr;
  Invoke invoke = nullptr;
  const void* target = nullptr;
  bool translates = false; // torch's exceptions and warnings, as HANDLE_TH_ERRORS does
  const Name* arguments = nullptr;
  std::size_t count = 0;
  Name result = nullptr;
  std::vector<arg_v> annotations;
};

class module_;

void define(PyObject* module, const Definition& definition);
void set_doc(PyObject* module, const char* text);
PyObject* create(const char* name, void (*fill)(module_&));

// What a type is called in signatures: inner names replace the placeholder `bool`.
std::string name_of_vector(const std::string& inner);
std::string name_of_optional(const std::string& inner);
std::string name_of_tuple(const std::vector<std::string>& inner);

// A list or tuple with src's items if a vector may be made of it, else null and no error.
PyObject* items_for_vector(PyObject* src, bool convert);
// The same for a tuple of so many.
PyObject* items_for_tuple(PyObject* src, std::size_t count);

inline PyObject* try_next_overload() {
  return reinterpret_cast<PyObject*>(1);
}

// --- conversions

template <typename T>
struct Caster; // incomplete for what only pybind11 proper converts

#define SLIM_BINDING_DECLARE(T)                        \
  template <>                                          \
  struct Caster<T> {                                   \
    using Held = T;                                    \
    static bool load(PyObject* src, bool convert, T&); \
    static PyObject* cast(const T& value);             \
    static std::string name();                         \
  };
SLIM_BINDING_PLAIN_TYPES(SLIM_BINDING_DECLARE)
#undef SLIM_BINDING_DECLARE

template <>
struct Caster<at::IntArrayRef> {
  using Held = std::vector<int64_t>;
  static bool load(PyObject* src, bool convert, Held& into);
  static PyObject* cast(const at::IntArrayRef& value);
  static std::string name();
};

template <>
struct Caster<void> {
  static std::string name();
};

template <typename T>
struct Caster<std::vector<T>> {
  using Held = std::vector<T>;
  static_assert(std::is_same_v<typename Caster<T>::Held, T>);

  static bool load(PyObject* src, bool convert, Held& into) {
    PyObject* items = items_for_vector(src, convert);
    if (items == nullptr) return false;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
    bool good = true;
    for (Py_ssize_t i = 0; good && i < count; ++i) {
      T value{};
      good = Caster<T>::load(PySequence_Fast_GET_ITEM(items, i), convert, value);
      into.push_back(std::move(value));
    }
    Py_DECREF(items);
    return good;
  }

  static PyObject* cast(const Held& value) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(value.size()));
    Py_ssize_t index = 0;
    for (const auto& each : value) {
      PyObject* item = list ? Caster<T>::cast(each) : nullptr;
      if (item == nullptr) {
        Py_XDECREF(list);
        return nullptr;
      }
      PyList_SET_ITEM(list, index++, item);
    }
    return list;
  }

  static std::string name() {
    return name_of_vector(Caster<T>::name());
  }
};

template <typename T>
struct Caster<std::optional<T>> {
  using Held = std::optional<T>;
  static_assert(std::is_same_v<typename Caster<T>::Held, T>);

  static bool load(PyObject* src, bool convert, Held& into) {
    if (src == Py_None) return true;
    T value{};
    if (!Caster<T>::load(src, convert, value)) return false;
    into.emplace(std::move(value));
    return true;
  }

  static PyObject* cast(const Held& value) {
    if (value) return Caster<T>::cast(*value);
    Py_RETURN_NONE;
  }

  static std::string name() {
    return name_of_optional(Caster<T>::name());
  }
};

template <typename Tuple, typename... Ts>
struct TupleCaster {
  using Held = Tuple;
  static_assert((std::is_same_v<typename Caster<Ts>::Held, Ts> && ...));

  static bool load(PyObject* src, bool convert, Held& into) {
    PyObject* items = items_for_tuple(src, sizeof...(Ts));
    if (items == nullptr) return false;
    const bool good = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (
          Caster<Ts>::load(PySequence_Fast_GET_ITEM(items, I), convert, std::get<I>(into)) && ...);
    }(std::index_sequence_for<Ts...>{});
    Py_DECREF(items);
    return good;
  }

  static PyObject* cast(const Held& value) {
    return std::apply(
        [](const auto&... each) {
          PyObject* items[] = {Caster<Ts>::cast(each)..., nullptr};
          PyObject* tuple = PyTuple_New(sizeof...(Ts));
          for (std::size_t i = 0; i < sizeof...(Ts); ++i) {
            if (items[i] == nullptr) Py_CLEAR(tuple);
            if (tuple == nullptr) return tuple;
            PyTuple_SET_ITEM(tuple, i, items[i]);
          }
          return tuple;
        },
        value);
  }

  static std::string name() {
    return name_of_tuple({Caster<Ts>::name()...});
  }
};

template <typename... Ts>
struct Caster<std::tuple<Ts...>> : TupleCaster<std::tuple<Ts...>, Ts...> {};
template <typename A, typename B>
struct Caster<std::pair<A, B>> : TupleCaster<std::pair<A, B>, A, B> {};

template <typename T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;
template <typename T>
using Held = typename Caster<Plain<T>>::Held;

// --- calls

struct NoGuard {};

class gil_scoped_release {
 public:
  gil_scoped_release() : state_(PyEval_SaveThread()) {}
  gil_scoped_release(const gil_scoped_release&) = delete;
  gil_scoped_release& operator=(const gil_scoped_release&) = delete;
  ~gil_scoped_release() {
    PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

class gil_scoped_acquire {
 public:
  gil_scoped_acquire() : state_(PyGILState_Ensure()) {}
  gil_scoped_acquire(const gil_scoped_acquire&) = delete;
  gil_scoped_acquire& operator=(const gil_scoped_acquire&) = delete;
  ~gil_scoped_acquire() {
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_;
};

template <typename Function, typename Guard>
struct Translated {
  Function function;
};

template <typename Function, typename Guard, typename Result, typename... Args>
struct Call {
  static PyObject* invoke(const void* target, PyObject* const* in, const bool* convert) {
    auto& function = *static_cast<Function*>(const_cast<void*>(target));
    return run(function, in, convert, std::index_sequence_for<Args...>{});
  }

  template <std::size_t... I>
  static PyObject* run(
      Function& function,
      [[maybe_unused]] PyObject* const* in,
      [[maybe_unused]] const bool* convert,
      std::index_sequence<I...>) {
    [[maybe_unused]] std::tuple<Held<Args>...> held;
    if (!(Caster<Plain<Args>>::load(in[I], convert[I], std::get<I>(held)) && ...)) {
      return try_next_overload();
    }
    const auto call = [&]() -> Result {
      [[maybe_unused]] Guard guard{};
      return function(pass<Args>(std::get<I>(held))...);
    };
    if constexpr (std::is_void_v<Result>) {
      call();
      Py_RETURN_NONE;
    } else {
      return Caster<Plain<Result>>::cast(call());
    }
  }

  template <typename Arg>
  static decltype(auto) pass(Held<Arg>& held) {
    if constexpr (!std::is_same_v<Held<Arg>, Plain<Arg>>) {
      return Plain<Arg>(held);
    } else if constexpr (std::is_lvalue_reference_v<Arg>) {
      return static_cast<Arg>(held);
    } else {
      return std::move(held);
    }
  }

  static constexpr Name names[] = {&Caster<Plain<Args>>::name..., nullptr};

  static void describe(Definition& definition, Function function) {
    definition.invoke = &invoke;
    definition.target = new Function(std::move(function));
    definition.arguments = names;
    definition.count = sizeof...(Args);
    definition.result = &Caster<Plain<Result>>::name;
  }
};

template <typename Guard, typename Result, typename... Args>
void describe(Definition& definition, Result (*function)(Args...)) {
  Call<Result (*)(Args...), Guard, Result, Args...>::describe(definition, function);
}

template <typename Guard, typename Function, typename Class, typename Result, typename... Args>
void describe_as(Definition& definition, Function function, Result (Class::*)(Args...) const) {
  Call<Function, Guard, Result, Args...>::describe(definition, std::move(function));
}

template <typename Guard, typename Function, typename Class, typename Result, typename... Args>
void describe_as(Definition& definition, Function function, Result (Class::*)(Args...)) {
  Call<Function, Guard, Result, Args...>::describe(definition, std::move(function));
}

template <typename Guard, typename Function>
auto describe(Definition& definition, Function function) -> decltype(&Function::operator(), void()) {
  describe_as<Guard>(definition, std::move(function), &Function::operator());
}

template <typename Guard, typename Function, typename Inner>
void describe(Definition& definition, Translated<Function, Inner> translated) {
  definition.translates = true;
  using Used = std::conditional_t<std::is_same_v<Inner, NoGuard>, Guard, Inner>;
  describe<Used>(definition, std::move(translated.function));
}

// --- annotations

struct arg {
  explicit arg(const char* name) : named{name} {}
  arg& noconvert(bool flag = true) {
    named.convert = !flag;
    return *this;
  }
  arg& none(bool flag = true) {
    named.none = flag;
    return *this;
  }
  template <typename T>
  arg_v operator=(const T& value) const {
    arg_v full = named;
    if constexpr (std::is_same_v<T, std::nullopt_t>) {
      full.value = Py_NewRef(Py_None);
    } else if constexpr (std::is_convertible_v<const T&, const char*>) {
      full.value = Caster<std::string>::cast(static_cast<const char*>(value));
    } else {
      full.value = Caster<T>::cast(value);
    }
    return full;
  }
  arg_v named;
};

template <typename... Guards>
struct call_guard;
template <>
struct call_guard<> {
  using type = NoGuard;
};
template <typename Guard>
struct call_guard<Guard> {
  using type = Guard;
};

inline void annotate(Definition& definition, const char* doc) {
  definition.doc = doc;
}
inline void annotate(Definition& definition, const arg& named) {
  definition.annotations.push_back(named.named);
}
inline void annotate(Definition& definition, const arg_v& named) {
  definition.annotations.push_back(named);
}
template <typename... Guards>
void annotate(Definition&, const call_guard<Guards...>&) {}

template <typename... Extra>
struct GuardOf {
  using type = NoGuard;
};
template <typename First, typename... Extra>
struct GuardOf<First, Extra...> : GuardOf<Extra...> {};
template <typename Guard, typename... Extra>
struct GuardOf<call_guard<Guard>, Extra...> {
  using type = Guard;
};

template <typename T>
inline constexpr bool is_argument = std::is_same_v<T, arg> || std::is_same_v<T, arg_v>;

class module_ {
 public:
  explicit module_(PyObject* module) : module_object_(module) {}

  template <typename Function, typename... Extra>
  module_& def(const char* name, Function&& function, const Extra&... extra) {
    Definition definition{name};
    (annotate(definition, extra), ...);
    describe<typename GuardOf<Extra...>::type>(definition, std::forward<Function>(function));
    define(module_object_, definition);
    return *this;
  }

  struct Doc {
    PyObject* module_object;
    void operator=(const char* text) {
      set_doc(module_object, text);
    }
  };
  Doc doc() {
    return Doc{module_object_};
  }

 private:
  PyObject* module_object_;
};
using module = module_;

} // namespace slim_binding

#ifndef SLIM_BINDING_RUNTIME

namespace pybind11 {
using namespace slim_binding; // NOLINT
} // namespace pybind11
namespace py = pybind11;

namespace torch {

template <typename Function>
auto wrap_pybind_function(Function&& function) {
  using Decayed = std::decay_t<Function>;
  return slim_binding::Translated<Decayed, slim_binding::NoGuard>{
      std::forward<Function>(function)};
}

template <typename Function>
auto wrap_pybind_function_no_gil(Function&& function) {
  using Decayed = std::decay_t<Function>;
  return slim_binding::Translated<Decayed, slim_binding::gil_scoped_release>{
      std::forward<Function>(function)};
}

} // namespace torch

#define SLIM_BINDING_JOIN_(a, b) a##b
#define SLIM_BINDING_JOIN(a, b) SLIM_BINDING_JOIN_(a, b)
#define SLIM_BINDING_TEXT_(a) #a
#define SLIM_BINDING_TEXT(a) SLIM_BINDING_TEXT_(a)

#define PYBIND11_MODULE(name, variable)                                               \
  static void SLIM_BINDING_JOIN(slim_binding_fill_, name)(::slim_binding::module_&);  \
  extern "C" __attribute__((visibility("default"))) PyObject* SLIM_BINDING_JOIN(      \
      PyInit_, name)() {                                                              \
    return ::slim_binding::create(                                                    \
        SLIM_BINDING_TEXT(name), &SLIM_BINDING_JOIN(slim_binding_fill_, name));       \
  }                                                                                   \
  static void SLIM_BINDING_JOIN(slim_binding_fill_, name)(                            \
      [[maybe_unused]] ::slim_binding::module_ & variable)

#endif // SLIM_BINDING_RUNTIME
