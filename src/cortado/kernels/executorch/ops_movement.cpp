/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that only move data.
 */
#include "arguments.h"
#include "arm_limits.h"
#include "cortado.h"
#include "cortex_m_ops.h"

#include <cinttypes>

namespace cortado {

namespace {

/* The runtime's kernels describe a tensor by four sizes; fewer dimensions have sizes of 1 before them. */
constexpr size_t arm_rank = 4;

Error check_rank(const Tensor &input)
{
    CORTADO_REQUIRE(between(input.dim(), 1, arm_rank), InvalidArgument, "input: found rank %zu, expected 1 to 4",
                    static_cast<size_t>(input.dim()));
    return Error::Ok;
}

/* perm[i] is the input dimension that becomes output dimension i; each appears once. */
Error read_order(ArrayRef<int64_t> perm, size_t rank, size_t (&order)[max_rank])
{
    bool seen[max_rank] = {};
    CORTADO_REQUIRE(perm.size() == rank, InvalidArgument, "perm: found %zu dimensions, expected %zu", perm.size(), rank);
    for (size_t i = 0; i < rank; i++) {
        const int64_t dim = perm[i];
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
    CORTADO_TRY(check_rank(input));
    const size_t rank = static_cast<size_t>(input.dim());
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

/* Four numbers whatever the rank, as the runtime reads them: zeros, then those of the tensor's dimensions. */
Error read_padding(ArrayRef<int64_t> padding, size_t rank, const char *name, int32_t (&amounts)[max_rank])
{
    CORTADO_REQUIRE(padding.size() == arm_rank, InvalidArgument, "%s: found %zu numbers, expected 4 whatever the rank",
                    name, padding.size());
    const size_t skip = arm_rank - rank;
    for (size_t i = 0; i < padding.size(); i++) {
        CORTADO_REQUIRE(between(padding[i], 0, i < skip ? 0 : INT32_MAX / 4), InvalidArgument,
                        "%s: found %" PRId64 ", expected a number of elements", name, padding[i]);
        if (i >= skip) {
            amounts[i - skip] = static_cast<int32_t>(padding[i]);
        }
    }
    return Error::Ok;
}

/* The runtime permutes the sizes of a tensor that it takes for channels-last, and not the paddings: right only if nothing
 * behind the first dimension is padded, or all sizes there are the same. */
Error check_layout(const Tensor &input, const cortado_pad_t &layer)
{
    if (!is_taken_for_channels_last(input)) {
        return Error::Ok;
    }
    bool padded = false, single = true;
    for (int i = 1; i < 4; i++) {
        padded = padded || layer.before[i] > 0 || layer.after[i] > 0;
        single = single && layer.shape[i] == 1;
    }
    CORTADO_REQUIRE(!padded || single, InvalidArgument,
                    "input: the runtime takes the sizes %" PRId32 ", %" PRId32 ", %" PRId32 ", %" PRId32
                    " for channels-last and pads other dimensions; give it fewer dimensions",
                    layer.shape[0], layer.shape[1], layer.shape[2], layer.shape[3]);
    return Error::Ok;
}

Error pad(const Tensor &input, ArrayRef<int64_t> pre_pad, ArrayRef<int64_t> post_pad, int64_t value, Tensor &out)
{
    SizesType sizes[max_rank];
    cortado_pad_t layer = {};
    CORTADO_TRY(check_plain(input, ScalarType::Char, "input"));
    CORTADO_TRY(check_rank(input));
    const size_t rank = static_cast<size_t>(input.dim());
    CORTADO_REQUIRE(input.numel() > 0, InvalidArgument, "pad: expected at least one element");
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
    CORTADO_TRY(check_layout(input, layer));
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
