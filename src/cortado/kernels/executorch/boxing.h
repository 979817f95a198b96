/* SPDX-License-Identifier: Apache-2.0
 *
 * From ExecuTorch's stack of values to a kernel's C++ arguments.
 *
 * A .pte may list too few values for a call, or values of another kind than the kernel takes. Both end the call with
 * Error::InvalidProgram before the kernel is entered; nothing here panics.
 */
#ifndef CORTADO_BOXING_H
#define CORTADO_BOXING_H

#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace cortado {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

/* One argument type: is the value of that kind, and what is it then. */
template <class T>
struct Unboxed;

template <>
struct Unboxed<const Tensor &> {
    static bool fits(const EValue &value) { return value.isTensor(); }
    static const Tensor &get(EValue &value) { return value.toTensor(); }
};

template <>
struct Unboxed<Tensor &> {
    static bool fits(const EValue &value) { return value.isTensor(); }
    static Tensor &get(EValue &value) { return value.toTensor(); }
};

template <>
struct Unboxed<const std::optional<Tensor> &> {
    static bool fits(const EValue &value) { return value.isTensor() || value.isNone(); }
    static std::optional<Tensor> get(EValue &value)
    {
        return value.isNone() ? std::optional<Tensor>() : std::optional<Tensor>(value.toTensor());
    }
};

template <>
struct Unboxed<int64_t> {
    static bool fits(const EValue &value) { return value.isInt(); }
    static int64_t get(EValue &value) { return value.toInt(); }
};

template <>
struct Unboxed<double> {
    static bool fits(const EValue &value) { return value.isDouble(); }
    static double get(EValue &value) { return value.toDouble(); }
};

template <>
struct Unboxed<bool> {
    static bool fits(const EValue &value) { return value.isBool(); }
    static bool get(EValue &value) { return value.toBool(); }
};

template <>
struct Unboxed<ScalarType> {
    static bool fits(const EValue &value) { return value.isInt(); }
    static ScalarType get(EValue &value) { return static_cast<ScalarType>(value.toInt()); }
};

template <>
struct Unboxed<ArrayRef<int64_t>> {
    /* The list's elements are values of their own, and may be of any kind too. */
    static bool fits(const EValue &value) { return value.tryToIntList().ok(); }
    static ArrayRef<int64_t> get(EValue &value) { return *value.tryToIntList(); }
};

template <class Function>
struct Caller;

template <class... Arguments>
struct Caller<Tensor &(KernelRuntimeContext &, Arguments...)> {
    using Function = Tensor &(KernelRuntimeContext &, Arguments...);
    static constexpr size_t count = sizeof...(Arguments);

    template <size_t... I>
    static bool fits(Span<EValue *> stack, std::index_sequence<I...>)
    {
        return ((stack[I] != nullptr && Unboxed<Arguments>::fits(*stack[I])) && ...);
    }

    template <size_t... I>
    static void call(Function *function, KernelRuntimeContext &context, Span<EValue *> stack, std::index_sequence<I...>)
    {
        (void)function(context, Unboxed<Arguments>::get(*stack[I])...);
    }
};

/* The kernel as ExecuTorch's registry wants it. The last argument is the output; it is what a tracer may log. */
template <const char *Name, auto Function>
void boxed(KernelRuntimeContext &context, Span<EValue *> stack)
{
    using Call = Caller<std::remove_pointer_t<decltype(Function)>>;
    const auto indices = std::make_index_sequence<Call::count>();
    if (stack.size() < Call::count || !Call::fits(stack, indices)) {
        ET_LOG(Error, "%s: the program calls it with other kinds of arguments than it takes", Name);
        context.fail(Error::InvalidProgram);
        return;
    }
    executorch::runtime::internal::EventTracerProfileOpScope scope(context.internal_event_tracer(), Name);
    Call::call(Function, context, stack, indices);
    executorch::runtime::internal::event_tracer_log_evalue(context.internal_event_tracer(), *stack[Call::count - 1]);
}

} // namespace cortado

#endif /* CORTADO_BOXING_H */
