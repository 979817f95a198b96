/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace.h"

namespace cortado {

namespace {

/* The first aligned `bytes` of a piece, or null. Fails on nothing but size. */
template <class Piece>
void *carve(Piece &piece, size_t bytes, size_t align)
{
    const size_t skip = (align - reinterpret_cast<uintptr_t>(piece.at) % align) % align;
    if (piece.at == nullptr || skip > piece.left || bytes > piece.left - skip) {
        return nullptr;
    }
    uint8_t *const found = piece.at + skip;
    piece.at = found + bytes;
    piece.left -= skip + bytes;
    return found;
}

} // namespace

Workspace::Workspace(KernelRuntimeContext &context)
    : context_(context), scratch_{nullptr, 0}, stack_{stack_bytes_, sizeof stack_bytes_}
{
}

Workspace::Workspace(KernelRuntimeContext &context, const Tensor &scratch) : Workspace(context)
{
    scratch_ = {static_cast<uint8_t *>(scratch.mutable_data_ptr()), scratch.nbytes()};
}

Error Workspace::take_bytes(size_t count, size_t size, size_t align, void *&place)
{
    CORTADO_REQUIRE(count <= SIZE_MAX / 2 / size, NotSupported, "the layer is too large");
    const size_t bytes = count * size;
    place = carve(scratch_, bytes, align);
    if (place == nullptr) {
        place = carve(stack_, bytes, align);
    }
    if (place != nullptr) {
        return Error::Ok;
    }
    const auto temporary = context_.allocate_temp(bytes, align);
    CORTADO_REQUIRE(temporary.ok(), MemoryAllocationFailed,
                    "no room for %zu bytes: build with a larger CORTADO_ET_STACK_BYTES, or give the runtime a temp "
                    "allocator",
                    bytes);
    place = *temporary;
    return Error::Ok;
}

} // namespace cortado
