/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls the registered cortex_m operators with right arguments, and with arguments that one change made wrong.
 *
 *     fuzz_executorch CASES SEED CHANGES [TARGET]
 *
 * CASES holds calls and their exact results; TARGET is the core whose limits they are held to. Each call is made as it is, and its result compared; then CHANGES times
 * with something changed: another number, list, shape, type, order of dimensions, a null pointer, another kind of
 * value, too few values. A kernel may compute something then, or refuse with an error code; a sanitizer sees whether
 * it touches what it must not. Prints "calls N refused N"; the exit code is 1 if a right call is refused or wrong.
 */
#include "arm_limits.h"

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;

std::string last_message; /* that the library logged */

[[noreturn]] void fail(const std::string &why)
{
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
}

/* ---- Calls as plain data ------------------------------------------------------------------------------------------ */

enum class Kind : uint8_t { none, integer, real, boolean, list, tensor };

struct Argument {
    Kind kind = Kind::none;
    int64_t integer = 0;
    double real = 0;
    std::vector<int64_t> list;
    uint8_t type = 0; /* of a tensor: ExecuTorch's code */
    std::vector<int32_t> sizes;
    std::vector<uint8_t> order;
    std::vector<uint8_t> data;
    bool null = false;
};

struct Call {
    std::string name;
    std::vector<Argument> arguments; /* the last is the output; its data is the result */
};

class Reader {
public:
    explicit Reader(const char *path) : file_(std::fopen(path, "rb"))
    {
        if (file_ == nullptr) {
            fail(std::string("can't open ") + path);
        }
    }
    ~Reader() { std::fclose(file_); }

    template <class T>
    T number()
    {
        T value;
        bytes(&value, sizeof value);
        return value;
    }

    template <class T>
    std::vector<T> vector()
    {
        std::vector<T> values(number<uint32_t>());
        bytes(values.data(), values.size() * sizeof(T));
        return values;
    }

private:
    void bytes(void *to, size_t count)
    {
        if (std::fread(to, 1, count, file_) != count) {
            fail("the cases end too early");
        }
    }

    std::FILE *file_;
};

Argument read_argument(Reader &from)
{
    Argument argument;
    argument.kind = static_cast<Kind>(from.number<uint8_t>());
    switch (argument.kind) {
    case Kind::integer:
    case Kind::boolean:
        argument.integer = from.number<int64_t>();
        break;
    case Kind::real:
        argument.real = from.number<double>();
        break;
    case Kind::list:
        argument.list = from.vector<int64_t>();
        break;
    case Kind::tensor:
        argument.type = from.number<uint8_t>();
        argument.sizes = from.vector<int32_t>();
        argument.order = from.vector<uint8_t>();
        argument.data = from.vector<uint8_t>();
        break;
    default:
        break;
    }
    return argument;
}

std::vector<Call> read_calls(const char *path)
{
    Reader from(path);
    std::vector<Call> calls(from.number<uint32_t>());
    for (Call &call : calls) {
        const std::vector<char> name = from.vector<char>();
        call.name.assign(name.begin(), name.end());
        call.arguments.resize(from.number<uint32_t>());
        for (Argument &argument : call.arguments) {
            argument = read_argument(from);
        }
    }
    return calls;
}

/* ---- From plain data to ExecuTorch's values ----------------------------------------------------------------------- */

/* Every piece of memory has its exact size, so that a sanitizer sees the first byte too far. */
template <class T>
std::unique_ptr<T[]> exact(const std::vector<T> &values)
{
    std::unique_ptr<T[]> copy(new T[values.size()]);
    std::copy(values.begin(), values.end(), copy.get());
    return copy;
}

struct Value {
    explicit Value(const Argument &argument)
    {
        switch (argument.kind) {
        case Kind::integer:
            value = EValue(argument.integer);
            break;
        case Kind::real:
            value = EValue(argument.real);
            break;
        case Kind::boolean:
            value = EValue(argument.integer != 0);
            break;
        case Kind::list:
            make_list(argument);
            break;
        case Kind::tensor:
            make_tensor(argument);
            break;
        default:
            break;
        }
    }

    void make_list(const Argument &argument)
    {
        items.reserve(argument.list.size());
        pointers.reserve(argument.list.size() + 1);
        unboxed.reserve(argument.list.size() + 1);
        for (const int64_t item : argument.list) {
            items.emplace_back(item);
            pointers.push_back(&items.back());
        }
        list = std::make_unique<BoxedEvalueList<int64_t>>(pointers.data(), unboxed.data(),
                                                          static_cast<int>(items.size()));
        value = EValue(list.get());
    }

    void make_tensor(const Argument &argument)
    {
        sizes = exact(argument.sizes);
        order = exact(argument.order);
        std::vector<int32_t> steps(argument.sizes.size());
        int32_t step = 1;
        for (size_t i = steps.size(); i-- > 0;) {
            steps[argument.order[i]] = step;
            step *= argument.sizes[argument.order[i]];
        }
        strides = exact(steps);
        data.reset(static_cast<uint8_t *>(std::malloc(argument.data.size())));
        std::copy(argument.data.begin(), argument.data.end(), data.get());
        impl = std::make_unique<TensorImpl>(static_cast<ScalarType>(argument.type),
                                            static_cast<ssize_t>(argument.sizes.size()), sizes.get(),
                                            argument.null ? nullptr : data.get(), order.get(), strides.get());
        value = EValue(Tensor(impl.get()));
    }

    struct Free {
        void operator()(uint8_t *memory) const { std::free(memory); }
    };

    EValue value;
    std::vector<EValue> items;
    std::vector<EValue *> pointers;
    std::vector<int64_t> unboxed;
    std::unique_ptr<BoxedEvalueList<int64_t>> list;
    std::unique_ptr<int32_t[]> sizes, strides;
    std::unique_ptr<uint8_t[]> order;
    std::unique_ptr<uint8_t, Free> data;
    std::unique_ptr<TensorImpl> impl;
};

/* Makes the call; `result` gets the output's bytes. */
Error make_call(const Call &call, size_t count, std::vector<uint8_t> &result)
{
    std::vector<std::unique_ptr<Value>> values;
    std::vector<EValue *> stack;
    for (size_t i = 0; i < count; i++) {
        Argument argument = call.arguments[i];
        if (i + 1 == call.arguments.size()) {
            argument.data.assign(argument.data.size(), 0x55);
        }
        values.push_back(std::make_unique<Value>(argument));
        stack.push_back(&values.back()->value);
    }
    const auto function = executorch::runtime::get_op_function_from_registry(call.name.c_str());
    if (!function.ok()) {
        fail(call.name + " is not registered");
    }
    executorch::extension::MallocMemoryAllocator temporary;
    KernelRuntimeContext context(nullptr, &temporary);
    (*function)(context, {stack.data(), stack.size()});
    const Value &out = *values.back();
    result.assign(out.data.get(), out.data.get() + call.arguments[count - 1].data.size());
    return context.failure_state();
}

/* ---- Changes ------------------------------------------------------------------------------------------------------ */

class Changer {
public:
    explicit Changer(uint32_t seed) : random_(seed) {}

    /* The number of values to put on the stack. */
    size_t change(Call &call)
    {
        if (chance(40)) {
            return below(call.arguments.size());
        }
        for (size_t times = 1 + below(2); times > 0; times--) {
            change(call.arguments[below(call.arguments.size())]);
        }
        return call.arguments.size();
    }

private:
    size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
    bool chance(size_t one_in) { return below(one_in) == 0; }

    int64_t number()
    {
        static const int64_t interesting[] = {
            0,         1,         2,         3,          -1,        -2,          7,         31,        32,
            -31,       -32,       127,       128,        -127,      -128,        -129,      255,       256,
            65536,     INT32_MAX, INT32_MIN, 1u << 31,   1ll << 32, -(1ll << 40), INT64_MAX, INT64_MIN, 1ll << 28,
            1ll << 29, 1000000,
        };
        return interesting[below(sizeof interesting / sizeof interesting[0])];
    }

    void change(Argument &argument)
    {
        if (chance(25)) { /* another kind of value altogether */
            argument = Argument();
            argument.kind = static_cast<Kind>(below(6));
            argument.list = {number()};
            if (argument.kind == Kind::tensor) {
                reshape(argument);
            }
            return;
        }
        switch (argument.kind) {
        case Kind::none:
            argument.kind = Kind::tensor;
            reshape(argument);
            break;
        case Kind::integer:
        case Kind::boolean:
            argument.integer = chance(3) ? argument.integer + static_cast<int64_t>(below(5)) - 2 : number();
            break;
        case Kind::real:
            change_real(argument);
            break;
        case Kind::list:
            change_list(argument);
            break;
        case Kind::tensor:
            change_tensor(argument);
            break;
        }
    }

    void change_real(Argument &argument)
    {
        static const double interesting[] = {0.0, -0.0, 1e-310, 1e-45, 1e30, 1e300, -1.0, 0.0 / 0.0, 1.0 / 0.0};
        argument.real = interesting[below(sizeof interesting / sizeof interesting[0])];
    }

    void change_list(Argument &argument)
    {
        if (argument.list.empty() || chance(4)) {
            argument.list.resize(below(8), number());
            return;
        }
        argument.list[below(argument.list.size())] = chance(3) ? static_cast<int64_t>(below(5)) : number();
    }

    void change_tensor(Argument &argument)
    {
        switch (below(6)) {
        case 0:
            argument.null = true;
            break;
        case 1:
            argument.type = static_cast<uint8_t>(below(8));
            fill(argument);
            break;
        case 2:
            std::shuffle(argument.order.begin(), argument.order.end(), random_);
            break;
        case 3:
            for (uint8_t &byte : argument.data) {
                byte = static_cast<uint8_t>(random_());
            }
            break;
        case 4:
            if (!argument.sizes.empty()) {
                argument.sizes[below(argument.sizes.size())] = static_cast<int32_t>(below(9));
                fill(argument);
                break;
            }
            [[fallthrough]];
        default:
            reshape(argument);
        }
    }

    void reshape(Argument &argument)
    {
        argument.sizes.assign(below(7), 0);
        argument.order.clear();
        for (size_t i = 0; i < argument.sizes.size(); i++) {
            argument.sizes[i] = static_cast<int32_t>(below(6));
            argument.order.push_back(static_cast<uint8_t>(i));
        }
        argument.type = chance(2) ? 1 : static_cast<uint8_t>(below(8));
        fill(argument);
    }

    void fill(Argument &argument)
    {
        static const size_t widths[] = {1, 1, 2, 4, 8, 2, 4, 8}; /* uint8, int8, int16, int32, int64, half, float, double */
        size_t bytes = widths[argument.type];
        for (const int32_t size : argument.sizes) {
            bytes *= static_cast<size_t>(size);
        }
        const uint8_t value = static_cast<uint8_t>(random_());
        argument.data.assign(bytes, value);
    }

    std::mt19937 random_;
};

void check_right(const Call &call)
{
    std::vector<uint8_t> result;
    if (make_call(call, call.arguments.size(), result) != Error::Ok) {
        fail(call.name + ": a right call was refused: " + last_message);
    }
    if (result != call.arguments.back().data) {
        fail(call.name + ": a right call gave a wrong result");
    }
}

} // namespace

/* The library logs every refusal; here they are the point. */
extern "C" void et_pal_emit_log_message(et_timestamp_t, et_pal_log_level_t, const char *, const char *, size_t,
                                        const char *message, size_t length)
{
    last_message.assign(message, length);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fail("usage: fuzz_executorch CASES SEED CHANGES [TARGET]");
    }
    executorch::runtime::runtime_init();
    if (argc == 5 && cortado_cortex_m_target(argv[4]) != 0) {
        fail(std::string(argv[4]) + " is no target");
    }
    Changer changer(static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)));
    const long changes = std::strtol(argv[3], nullptr, 10);
    size_t calls = 0, refused = 0;
    for (const Call &call : read_calls(argv[1])) {
        check_right(call);
        for (long i = 0; i < changes; i++) {
            Call changed = call;
            const size_t count = changer.change(changed);
            std::vector<uint8_t> result;
            if (count > 0) {
                refused += make_call(changed, count, result) != Error::Ok;
                calls++;
            }
        }
    }
    std::printf("calls %zu refused %zu\n", calls, refused);
    return 0;
}
