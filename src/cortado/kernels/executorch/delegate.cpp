/* SPDX-License-Identifier: Apache-2.0
 *
 * CortadoBackend: an ExecuTorch delegate whose blob is an image (MODEL.cortado, cortado_image.h).
 *
 * Arguments of a call: the arena, if the file was planned with one, the inputs, the outputs. What lies in the arena
 * already is not copied. Integers of 64 bits, PyTorch's default, are narrowed on the way in and widened on the way out;
 * a tensor whose dimensions lie in another order than ExecuTorch said when the part was compiled is turned. A
 * file without an arena takes it from the temp allocator with every call, or, where something lasts from call to call, once
 * from the method allocator. Nothing else is allocated; there are no exceptions.
 *
 * An input that comes row by row has one row for each call, and the outputs are followed by an int32 that is 1 when they
 * are new.
 *
 * With CORTADO_PROFILE, in the kernels too, a run leaves an event for each step in the runtime's event tracer, with the
 * time of all its calls: by the layer's name where the blob has names behind the image, by the step's number from 1 where
 * not.
 */
#include "cortado_image.h"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <cstring>
#include <new>

namespace {

using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DebugHandle;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::kUnsetDelegateDebugIntId;
using executorch::runtime::Result;
using executorch::runtime::Span;

struct Handle {
    cortado_model_t model;
    uint8_t *arena;        /* its own; NULL: an argument, or the temp allocator's */
    bool arena_is_planned; /* the first argument */
    bool started;          /* state has its first values */
    const char *orders;    /* of the dimensions of inputs and outputs in memory, outermost first: "0231,01"; NULL: any */
#ifdef CORTADO_PROFILE
    et_timestamp_t *spent; /* by each step, in ticks */
    const char *layers;    /* a name for each step, one behind the other; NULL: none */
#endif
};
#if !defined(CORTADO_PROFILE) && !defined(CORTADO_CHECK_RANGES)
static_assert(sizeof(Handle) == (sizeof(void *) == 4 ? 48 : 96), "`cortado inspect` says how much this takes");
#endif

const char *reason(cortado_image_error_t error)
{
    switch (error) {
    case CORTADO_IMAGE_NOT_ONE: return "no image, or not at a multiple of 16 bytes";
    case CORTADO_IMAGE_FORMAT_UNKNOWN: return "an image of another format";
    case CORTADO_IMAGE_CUT_OFF: return "an image that is cut off";
    case CORTADO_IMAGE_DAMAGED: return "a damaged image: its CRC is wrong";
    case CORTADO_IMAGE_CORE: return "an image for another kind of core";
    case CORTADO_IMAGE_VERSION: return "an image for the kernels of another version";
    case CORTADO_IMAGE_KERNEL: return "an image that calls a kernel which is not linked";
    default: return "an image whose tables are wrong";
    }
}

bool is_planned(ArrayRef<CompileSpec> specs)
{
    for (const CompileSpec &spec : specs) {
        if (std::strcmp(spec.key, "arena") == 0) {
            return spec.value.nbytes == 7 && std::memcmp(spec.value.buffer, "planned", 7) == 0;
        }
    }
    return false;
}

/* The strings behind the image, of which the first says the orders of dimensions; NULL where there are none. */
const char *strings_in(const FreeableBuffer &blob, const cortado_image_t &image)
{
    const char *first = static_cast<const char *>(blob.data()) + image.bytes;
    const size_t room = blob.size() - image.bytes;
    return room != 0 && first[room - 1] == '\0' ? first : nullptr;
}

/* The order of a port, up to a comma or the end. */
const char *order_of(const char *orders, uint32_t port)
{
    for (; port > 0 && *orders != '\0'; orders++) {
        port -= *orders == ',';
    }
    return orders;
}

/* Whether a tensor's dimensions lie in an order; one of size 1 lies anywhere. */
bool lies_so(const Tensor &tensor, const char *order)
{
    const ssize_t dims = tensor.dim();
    ssize_t at = 0;
    for (ssize_t i = 0; i < dims; i++) {
        const int dim = order[i] - '0';
        if (dim < 0 || dim >= dims) {
            return false;
        }
        if (tensor.size(dim) == 1) {
            continue;
        }
        while (tensor.size(tensor.dim_order()[at]) == 1) {
            at++;
        }
        if (tensor.dim_order()[at++] != dim) {
            return false;
        }
    }
    return true;
}

/* Whether each dimension of a tensor is in an order once. */
bool is_order(const Tensor &tensor, const char *order)
{
    uint32_t seen = 0;
    for (ssize_t i = 0; i < tensor.dim(); i++) {
        const int dim = order[i] - '0';
        if (dim < 0 || dim > 9 || dim >= tensor.dim() || (seen & (1u << dim)) != 0) {
            return false;
        }
        seen |= 1u << dim;
    }
    return true;
}

/* Copies a tensor to a place where its dimensions lie in another order; or, if it is an output, from there. */
void turn(const Tensor &tensor, const char *order, uint8_t *place, bool out)
{
    int32_t index[10] = {0};
    uint8_t *const data = static_cast<uint8_t *>(tensor.mutable_data_ptr());
    const size_t bytes = tensor.element_size();
    for (ssize_t left = tensor.numel(); left > 0; left--, place += bytes) {
        ssize_t at = 0;
        for (ssize_t i = 0; i < tensor.dim(); i++) {
            at += index[i] * tensor.strides()[order[i] - '0'];
        }
        uint8_t *const here = data + at * static_cast<ssize_t>(bytes);
        std::memcpy(out ? here : place, out ? place : here, bytes);
        for (ssize_t i = tensor.dim() - 1; i >= 0 && ++index[i] == tensor.sizes()[order[i] - '0']; i--) {
            index[i] = 0;
        }
    }
}

#ifdef CORTADO_PROFILE

/* The run that is under way: kernels are called with no context. */
struct {
    et_timestamp_t *spent, since;
    uint32_t step;
} running;

void leave_step(uint32_t next)
{
    const et_timestamp_t now = et_pal_current_ticks();
    running.spent[running.step] += now - running.since;
    running.step = next;
    running.since = et_pal_current_ticks();
}

/* The names behind the orders, where there is one for each step. */
const char *names_in(const FreeableBuffer &blob, const cortado_image_t &image)
{
    const char *first = strings_in(blob, image);
    const size_t room = blob.size() - image.bytes;
    uint32_t count = 0;
    for (size_t i = 0; first != nullptr && i < room; i++) {
        count += first[i] == '\0';
    }
    return count == image.steps + 1u ? first + std::strlen(first) + 1 : nullptr;
}

bool profile_init(Handle &handle, executorch::runtime::MemoryAllocator *allocator, const FreeableBuffer &blob)
{
    handle.spent = allocator->allocateList<et_timestamp_t>(handle.model.image->steps + 1u);
    handle.layers = names_in(blob, *handle.model.image);
    handle.model.program.profile = leave_step;
    return handle.spent != nullptr;
}

void profile_begin(Handle &handle)
{
    const uint32_t steps = handle.model.image->steps; /* what comes before the first is counted behind the last */
    std::memset(handle.spent, 0, (steps + 1u) * sizeof *handle.spent);
    running.spent = handle.spent;
    running.step = steps;
    running.since = et_pal_current_ticks();
}

void profile_end(Handle &handle, executorch::runtime::EventTracer *tracer)
{
    const uint32_t steps = handle.model.image->steps;
    leave_step(steps);
    et_timestamp_t at = running.since;
    const char *name = handle.layers;
    for (uint32_t i = 0; i < steps; i++) {
        const DebugHandle id = name == nullptr ? i + 1u : static_cast<DebugHandle>(kUnsetDelegateDebugIntId);
        executorch::runtime::event_tracer_log_profiling_delegate(tracer, name, id, at, at + handle.spent[i]);
        at += handle.spent[i];
        name = name == nullptr ? nullptr : name + std::strlen(name) + 1;
    }
}

#endif

class CortadoBackend final : public BackendInterface {
public:
    bool is_available() const override { return true; }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec> specs) const override
    {
        auto *allocator = context.get_runtime_allocator();
        auto *handle = allocator->allocateInstance<Handle>();
        if (handle == nullptr) {
            return Error::MemoryAllocationFailed;
        }
        new (handle) Handle{};
        handle->arena_is_planned = is_planned(specs);
        cortado_model_t &model = handle->model;
        model.ram_bytes = cortado_image_ram(processed->data(), processed->size());
        if (model.ram_bytes != 0) { /* of what is no image, opening says why */
            model.ram = allocator->allocate(model.ram_bytes, 8);
            if (model.ram == nullptr) {
                ET_LOG(Error, "Cortado: the method allocator needs %u bytes more", (unsigned)model.ram_bytes);
                return Error::MemoryAllocationFailed;
            }
        }
        const cortado_image_error_t error = model.ram_bytes != 0
                                                ? cortado_image_open_checked(processed->data(), &model)
                                                : cortado_image_open(processed->data(), processed->size(), &model);
        if (error != CORTADO_IMAGE_FINE) {
            ET_LOG(Error, "Cortado: the blob is %s%s%s", reason(error), model.missing == nullptr ? "" : ": ",
                   model.missing == nullptr ? "" : model.missing);
            return Error::DelegateInvalidCompatibility;
        }
        handle->orders = strings_in(*processed, *model.image);
        if (handle->orders != nullptr && *handle->orders == '\0') {
            handle->orders = nullptr;
        }
        const bool lasts = model.image->state_bytes != 0 || model.image->feeding != 0;
        if (lasts && !handle->arena_is_planned) {
            handle->arena = static_cast<uint8_t *>(allocator->allocate(model.image->arena_bytes, CORTADO_IMAGE_ALIGN));
            if (handle->arena == nullptr) {
                ET_LOG(Error, "Cortado: the method allocator needs %u bytes more", (unsigned)model.image->arena_bytes);
                return Error::MemoryAllocationFailed;
            }
        }
#ifdef CORTADO_PROFILE
        if (!profile_init(*handle, allocator, *processed)) {
            return Error::MemoryAllocationFailed;
        }
#endif
        return static_cast<DelegateHandle *>(handle);
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *opaque, Span<EValue *> given) const override
    {
        auto *handle = static_cast<Handle *>(opaque);
        const cortado_image_t *image = handle->model.image;
        const size_t first = handle->arena_is_planned ? 1 : 0, flag = image->feeding != 0 ? 1 : 0;
        const size_t expected = first + image->inputs + image->outputs + flag;
        ET_CHECK_OR_RETURN_ERROR(given.size() == expected, InvalidArgument, "Cortado: %zu arguments, expected %zu",
                                 given.size(), expected);
        for (size_t i = 0; i < given.size(); i++) {
            ET_CHECK_OR_RETURN_ERROR(given[i]->isTensor(), InvalidArgument, "Cortado: argument %zu is no tensor", i);
        }
        uint8_t *arena = arena_of(context, *handle, given);
        if (arena == nullptr) {
            return Error::MemoryAllocationFailed;
        }
        if (!handle->started) {
            cortado_image_reset(&handle->model, arena);
            handle->started = true;
        }
        EValue **inputs = given.data() + first, **outputs = inputs + image->inputs;
#ifdef CORTADO_PROFILE
        profile_begin(*handle);
#endif
        Error error = flag ? push(handle->model, arena, inputs[0]->toTensor(), outputs[image->outputs]->toTensor())
                           : run(*handle, arena, inputs);
#ifdef CORTADO_PROFILE
        profile_end(*handle, context.event_tracer());
#endif
        for (uint32_t i = 0; i < image->outputs && error == Error::Ok; i++) {
            error = give(*handle, arena, (int)i, outputs[i]->toTensor());
        }
        return error;
    }

private:
    static uint8_t *arena_of(BackendExecutionContext &context, const Handle &handle, Span<EValue *> given)
    {
        const uint32_t bytes = handle.model.image->arena_bytes;
        uint8_t *arena = handle.arena;
        if (handle.arena_is_planned) {
            const Tensor &tensor = given[0]->toTensor();
            arena = tensor.nbytes() < bytes ? nullptr : static_cast<uint8_t *>(tensor.mutable_data_ptr());
        } else if (arena == nullptr) {
            arena = static_cast<uint8_t *>(context.allocate(bytes, CORTADO_IMAGE_ALIGN));
        }
        if (arena == nullptr || reinterpret_cast<uintptr_t>(arena) % CORTADO_IMAGE_ALIGN != 0) {
            ET_LOG(Error, "Cortado: the arena must have %u bytes at a multiple of %d%s", (unsigned)bytes,
                   CORTADO_IMAGE_ALIGN, handle.arena_is_planned ? "" : "; give the temp allocator as many");
            return nullptr;
        }
        return arena;
    }

    /* Whether a tensor of the call can be copied as it lies. */
    static bool lies_as_compiled(const Handle &handle, uint32_t port, const Tensor &tensor)
    {
        return handle.orders == nullptr || lies_so(tensor, order_of(handle.orders, port));
    }

    static Error turned(const Handle &handle, uint32_t port, const Tensor &tensor, void *place, uint32_t bytes, bool out)
    {
        const char *order = order_of(handle.orders, port);
        const bool fits = is_order(tensor, order) && tensor.nbytes() == bytes && tensor.const_data_ptr() != place;
        ET_CHECK_OR_RETURN_ERROR(fits, NotSupported,
                                 "Cortado: argument %u has its dimensions in another order than it was compiled with",
                                 (unsigned)port);
        turn(tensor, order, static_cast<uint8_t *>(place), out);
        return Error::Ok;
    }

    static Error run(const Handle &handle, uint8_t *arena, EValue **inputs)
    {
        const cortado_model_t &model = handle.model;
        for (int i = 0; i < model.image->inputs; i++) {
            const Tensor &tensor = inputs[i]->toTensor();
            void *to = cortado_image_input(&model, arena, i);
            const cortado_image_tensor_t *port = cortado_image_input_tensor(&model, i);
            if (!lies_as_compiled(handle, (uint32_t)i, tensor)) {
                const Error error = turned(handle, (uint32_t)i, tensor, to, port->bytes, false);
                if (error != Error::Ok) {
                    return error;
                }
                continue;
            }
            if (is_wide(tensor, *port)) {
                ET_CHECK_OR_RETURN_ERROR(narrow(tensor.const_data_ptr<int64_t>(), to, *port), InvalidArgument,
                                         "Cortado: input %d holds a number that has no place in %u bits", i,
                                         width(*port) * 8u);
                continue;
            }
            ET_CHECK_OR_RETURN_ERROR(tensor.nbytes() == port->bytes, InvalidArgument,
                                     "Cortado: input %d has %zu bytes, expected %u", i, tensor.nbytes(),
                                     (unsigned)port->bytes);
            if (tensor.const_data_ptr() != to) {
                std::memmove(to, tensor.const_data_ptr(), port->bytes);
            }
        }
        return cortado_image_run(&model, arena) == 0 ? Error::Ok : Error::Internal;
    }

    /* Bytes of a value; see cortado_image_tensor_t. */
    static unsigned width(const cortado_image_tensor_t &port)
    {
        static const uint8_t widths[] = {1, 2, 4, 1, 1, 4};
        return port.element < sizeof widths ? widths[port.element] : 1;
    }

    /* Whether a tensor has integers of 64 bits where the image has fewer. */
    static bool is_wide(const Tensor &tensor, const cortado_image_tensor_t &port)
    {
        return tensor.scalar_type() == executorch::aten::ScalarType::Long && port.element != 5 &&
               tensor.nbytes() == size_t{port.bytes} / width(port) * sizeof(int64_t);
    }

    template <typename T>
    static bool narrow_to(const int64_t *from, void *to, size_t count)
    {
        T *at = static_cast<T *>(to);
        bool fits = true;
        for (size_t i = 0; i < count; i++) {
            at[i] = static_cast<T>(from[i]);
            fits = fits && static_cast<int64_t>(at[i]) == from[i];
        }
        return fits;
    }

    static bool narrow(const int64_t *from, void *to, const cortado_image_tensor_t &port)
    {
        const size_t count = port.bytes / width(port);
        switch (port.element) {
        case 0: return narrow_to<int8_t>(from, to, count);
        case 1: return narrow_to<int16_t>(from, to, count);
        case 2: return narrow_to<int32_t>(from, to, count);
        default: return narrow_to<uint8_t>(from, to, count);
        }
    }

    static void widen(const void *from, int64_t *to, const cortado_image_tensor_t &port)
    {
        const size_t count = port.bytes / width(port);
        for (size_t i = 0; i < count; i++) {
            switch (port.element) {
            case 0: to[i] = static_cast<const int8_t *>(from)[i]; break;
            case 1: to[i] = static_cast<const int16_t *>(from)[i]; break;
            case 2: to[i] = static_cast<const int32_t *>(from)[i]; break;
            default: to[i] = static_cast<const uint8_t *>(from)[i]; break;
            }
        }
    }

    static Error push(cortado_model_t &model, uint8_t *arena, const Tensor &row, Tensor &made)
    {
        if (cortado_image_row(&model, arena) == nullptr) { /* the rows of an input are complete: the next one begins */
            cortado_image_reset(&model, arena);
        }
        const uint32_t bytes = model.program.steps->out_row_bytes;
        ET_CHECK_OR_RETURN_ERROR(row.nbytes() == bytes && made.nbytes() == sizeof(int32_t), InvalidArgument,
                                 "Cortado: a row has %zu bytes, expected %u", row.nbytes(), (unsigned)bytes);
        std::memcpy(cortado_image_row(&model, arena), row.const_data_ptr(), bytes);
        *made.mutable_data_ptr<int32_t>() = cortado_image_push(&model, arena);
        return Error::Ok;
    }

    static Error give(const Handle &handle, uint8_t *arena, int i, Tensor &tensor)
    {
        const cortado_model_t &model = handle.model;
        const void *from = cortado_image_output(&model, arena, i);
        const uint32_t bytes = cortado_image_output_tensor(&model, i)->bytes;
        const uint32_t place = model.image->inputs + (uint32_t)i;
        if (!lies_as_compiled(handle, place, tensor)) {
            return turned(handle, place, tensor, const_cast<void *>(from), bytes, true);
        }
        if (is_wide(tensor, *cortado_image_output_tensor(&model, i))) {
            widen(from, tensor.mutable_data_ptr<int64_t>(), *cortado_image_output_tensor(&model, i));
            return Error::Ok;
        }
        ET_CHECK_OR_RETURN_ERROR(tensor.nbytes() == bytes, InvalidArgument,
                                 "Cortado: output %d has %zu bytes, expected %u", i, tensor.nbytes(), (unsigned)bytes);
        if (tensor.const_data_ptr() != from) {
            std::memmove(tensor.mutable_data_ptr(), from, bytes);
        }
        return Error::Ok;
    }
};

CortadoBackend backend;
const Error registered = executorch::runtime::register_backend({"CortadoBackend", &backend});

} // namespace

/* Whether the runtime has taken the backend; a name that firmware can ask for, so that a linker keeps this file. */
extern "C" int cortado_delegate_registered(void) { return registered == Error::Ok; }
