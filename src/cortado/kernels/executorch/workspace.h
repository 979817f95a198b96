/* SPDX-License-Identifier: Apache-2.0
 *
 * A few bytes for one kernel call, without an allocation.
 *
 * Cortado's spatial kernels read an array of row pointers (kernel height x 4 bytes on a 32-bit core) and, where a
 * window reaches over the border, one pixel that holds the input's zero point (one byte per channel). They come from
 *   1. the call's scratch tensor, which the compiler planned: CMSIS-NN's kernels want more than that for nearly every
 *      layer, so nearly every layer ends here;
 *   2. CORTADO_ET_STACK_BYTES of stack, for the layers that CMSIS-NN needs no scratch for;
 *   3. the runtime's temp allocator, if it has one.
 * Without any of them the call ends with Error::MemoryAllocationFailed. On a 32-bit core the default of 1024 bytes of
 * stack is enough for a window of 6 rows over 1000 channels, or for a pool over 256 rows.
 */
#ifndef CORTADO_WORKSPACE_H
#define CORTADO_WORKSPACE_H

#include "arguments.h"

#include <cstddef>
#include <cstdint>

namespace cortado {

class Workspace {
public:
    explicit Workspace(KernelRuntimeContext &context);
    Workspace(KernelRuntimeContext &context, const Tensor &scratch);
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;

    /* Room for `count` of T, not initialised. */
    template <class T>
    Error take(size_t count, T *&place)
    {
        void *found = nullptr;
        CORTADO_TRY(take_bytes(count, sizeof(T), alignof(T), found));
        place = static_cast<T *>(found);
        return Error::Ok;
    }

private:
    struct Piece {
        uint8_t *at;
        size_t left;
    };

    Error take_bytes(size_t count, size_t size, size_t align, void *&place);

    KernelRuntimeContext &context_;
    Piece scratch_, stack_;
    alignas(void *) uint8_t stack_bytes_[CORTADO_ET_STACK_BYTES];
};

} // namespace cortado

#endif /* CORTADO_WORKSPACE_H */
