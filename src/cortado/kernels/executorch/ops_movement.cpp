/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that only move data.
 */
#include "arguments.h"
#include "cortado.h"
#include "cortex_m_ops.h"

#include <cinttypes>

namespace cortado {

namespace {

/* perm[i] is the input dimension that becomes output dimension i; each appears once. */
Error read_order(ArrayRef<int64_t> perm, size_t rank, size_t (&order)[max_rank])
{
    bool seen[max_rank] = {};
    CORTADO_REQUIRE(perm.size() == rank, InvalidArgument, "perm: found %zu dimensions, expected %zu", perm.size(), rank);
    for (size_t i = 0; i < rank; i++) {
        const int64_t dim = perm[i] < 0 ? perm[i] + static_cast<int64_t>(rank) : perm[i];
        CORTADO_REQUIRE(between(dim, 0, static_cast<int64_t>(rank) - 1) && !seen[dim], InvalidArgument,
                        "perm: found %" PRId64 ", expected every dimension once", perm[i]);
        seen[dim] = true;
        order[i] = static_cast<size_t>(dim);
    }
    return Error::Ok;
}

Error transpose(const Tensor &input, ArrayRef<int64_t> perm, Tensor &out)
{
    size_t order[max_rank];
    SizesType sizes[max_rank];
    int32_t strides[max_rank];
    CORTADO_TRY(check_plain(input, ScalarType::Char, "input"));
    const size_t rank = static_cast<size_t>(input.dim());
    CORTADO_REQUIRE(rank > 0, InvalidArgument, "transpose: expected at least one dimension");
    CORTADO_TRY(read_order(perm, rank, order));
    int32_t step = 1;
    for (size_t dim = rank; dim-- > 0;) {
        strides[dim] = step;
        step *= static_cast<int32_t>(input.size(static_cast<ssize_t>(dim)));
    }
    cortado_transpose_t layer = {};
    layer.rank = static_cast<int32_t>(rank);
    for (size_t i = 0; i < rank; i++) {
        sizes[i] = static_cast<SizesType>(input.size(static_cast<ssize_t>(order[i])));
        layer.shape[i] = static_cast<int32_t>(sizes[i]);
        layer.stride[i] = strides[order[i]];
    }
    CORTADO_TRY(resize(out, ScalarType::Char, ArrayRef<SizesType>(sizes, rank)));
    CORTADO_TRY(check_plain(out, ScalarType::Char, "the output"));
    if (input.numel() > 0) {
        cortado_transpose_s8(&layer, int8_data(input), out.mutable_data_ptr<int8_t>());
    }
    return Error::Ok;
}

/* The paddings of the last dimensions come last; lists longer than the rank begin with zeros. */
Error read_padding(ArrayRef<int64_t> padding, size_t rank, const char *name, int32_t (&amounts)[max_rank])
{
    CORTADO_REQUIRE(padding.size() >= rank, InvalidArgument, "%s: found %zu numbers, expected %zu", name,
                    padding.size(), rank);
    const size_t skip = padding.size() - rank;
    for (size_t i = 0; i < padding.size(); i++) {
        CORTADO_REQUIRE(between(padding[i], 0, i < skip ? 0 : INT32_MAX / 4), InvalidArgument,
                        "%s: found %" PRId64 ", expected a number of elements", name, padding[i]);
        if (i >= skip) {
            amounts[i - skip] = static_cast<int32_t>(padding[i]);
        }
    }
    return Error::Ok;
}

Error pad(const Tensor &input, ArrayRef<int64_t> pre_pad, ArrayRef<int64_t> post_pad, int64_t value, Tensor &out)
{
    SizesType sizes[max_rank];
    cortado_pad_t layer = {};
    CORTADO_TRY(check_plain(input, ScalarType::Char, "input"));
    const size_t rank = static_cast<size_t>(input.dim());
    CORTADO_REQUIRE(rank > 0 && input.numel() > 0, InvalidArgument, "pad: expected at least one element");
    CORTADO_TRY(check_zero_point(value, "pad_value"));
    CORTADO_TRY(read_padding(pre_pad, rank, "pre_pad", layer.before));
    CORTADO_TRY(read_padding(post_pad, rank, "post_pad", layer.after));
    layer.rank = static_cast<int32_t>(rank);
    layer.value = static_cast<int32_t>(value);
    for (size_t i = 0; i < rank; i++) {
        layer.shape[i] = static_cast<int32_t>(input.size(static_cast<ssize_t>(i)));
        const int64_t size = int64_t(layer.before[i]) + layer.shape[i] + layer.after[i];
        CORTADO_REQUIRE(size < INT32_MAX, NotSupported, "pad: the result is too large");
        sizes[i] = static_cast<SizesType>(size);
    }
    CORTADO_TRY(resize(out, ScalarType::Char, ArrayRef<SizesType>(sizes, rank)));
    CORTADO_TRY(check_plain(out, ScalarType::Char, "the output"));
    cortado_pad_s8(&layer, int8_data(input), out.mutable_data_ptr<int8_t>());
    return Error::Ok;
}

} // namespace

} // namespace cortado

/* ---- The operators ------------------------------------------------------------------------------------------------ */

namespace cortex_m {
namespace native {

using namespace cortado;

Tensor &transpose_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> perm, Tensor &out)
{
    return finish(context, transpose(input, perm, out), out);
}

Tensor &pad_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> pre_pad,
                ArrayRef<int64_t> post_pad, int64_t pad_value, Tensor &out)
{
    return finish(context, pad(input, pre_pad, post_pad, pad_value, out), out);
}

} // namespace native
} // namespace cortex_m
