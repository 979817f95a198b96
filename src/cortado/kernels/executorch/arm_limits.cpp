/* SPDX-License-Identifier: Apache-2.0 */
#include "arm_limits.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace cortado {

namespace {

/* ---- The target --------------------------------------------------------------------------------------------------- */

struct Cores {
    bool scalar, dsp, mve; /* there are cores of this kind among the target's */
    bool told;
};

constexpr Cores every_core = {true, true, true, true}, nobody_said = {true, true, true, false};
constexpr Cores scalar_core = {true, false, false, true}, dsp_core = {false, true, false, true};
constexpr Cores mve_core = {false, false, true, true};

struct Name {
    const char *core;
    const Cores &cores;
};

constexpr Name names[] = {
    {"cortex-m", every_core},       {"cortex-m0", scalar_core}, {"cortex-m0plus", scalar_core},
    {"cortex-m3", scalar_core},     {"cortex-m23", scalar_core}, {"cortex-m4", dsp_core},
    {"cortex-m7", dsp_core},        {"cortex-m33", dsp_core},   {"cortex-m35p", dsp_core},
    {"cortex-m52", mve_core},       {"cortex-m55", mve_core},   {"cortex-m85", mve_core},
};

Cores target_cores = nobody_said;
bool imitates_arm = false;

/* The part behind the core's name takes instructions away. */
Cores with_override(const Cores &cores, const char *override_text)
{
    if (*override_text == '\0') {
        return cores;
    }
    if (std::strcmp(override_text, "+nodsp") == 0) {
        return scalar_core;
    }
    return std::strcmp(override_text, "+nomve") == 0 && cores.mve ? dsp_core : nobody_said;
}

Cores cores_of(const char *target)
{
    const size_t length = std::strcspn(target, "+");
    for (const Name &name : names) {
        if (std::strlen(name.core) == length && std::strncmp(name.core, target, length) == 0) {
            return with_override(name.cores, target + length);
        }
    }
    return nobody_said;
}

/* ---- Sizes -------------------------------------------------------------------------------------------------------- */

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

/* Channels that CMSIS-NN's MVE kernel for depthwise layers works on together. */
constexpr int64_t depthwise_block = 124;

bool is_plain(const Pair &dilation) { return dilation.h == 1 && dilation.w == 1; }

/* 1x1 without padding: a product of matrices, which needs no columns. */
bool takes_pointwise_kernel(const Image &in, const Window &w, int32_t depth)
{
    return w.kernel.h == 1 && w.kernel.w == 1 && w.padding.h == 0 && w.padding.w == 0 && is_plain(w.dilation) &&
           in.channels == depth;
}

/* A signal: one row under one row of taps. On MVE it has a kernel of its own. */
bool takes_row_kernel(const Image &in, const Window &w, int32_t depth)
{
    return in.height == 1 && w.kernel.h == 1 && w.dilation.w == 1 && in.channels == depth &&
           int64_t(w.stride.w) * in.channels % 4 == 0 && !takes_pointwise_kernel(in, w, depth);
}

/* The MVE row kernel keeps the pixels of the outputs that reach over the left end, then of those that reach over the
 * right end; -1 where it finds that there are more of them than outputs and leaves the layer to the general kernel. */
int64_t row_kernel_scratch(const Image &in, const Image &out, const Window &w)
{
    const int64_t missing = int64_t(out.width - 1) * w.stride.w + w.kernel.w - in.width;
    const int64_t odd = missing % 2, beyond = w.padding.w + odd;
    const int64_t left = divide_up(w.padding.w, w.stride.w);
    const int64_t right = beyond == 0 ? 0 : std::max<int64_t>(1, (beyond + w.stride.w - 1) / w.stride.w);
    if (left + right > out.width) {
        return -1;
    }
    const int64_t behind = odd != 0 ? right : w.padding.w;
    return in.channels * std::max<int64_t>(w.kernel.w + w.padding.w, w.kernel.w - 1 + behind);
}

/* The layers that CMSIS-NN runs as a convolution with reversed weights. */
bool reverses_weights(const Image &in, const Window &w)
{
    return w.stride.h <= 2 && w.stride.w <= 2 && in.channels > 16;
}

} // namespace

bool may_use_mve() { return target_cores.mve; }

bool may_lack_mve() { return target_cores.scalar || target_cores.dsp; }

bool quantizes_as_mve() { return imitates_arm && !may_lack_mve(); }

Error check_scratch(const Tensor &scratch, const ScratchBytes &needed, const char *name)
{
    const int64_t found = static_cast<int64_t>(scratch.nbytes());
    if (!target_cores.told) {
        CORTADO_REQUIRE(found == needed.scalar || found == needed.dsp || found == needed.mve, InvalidArgument,
                        "%s: found %" PRId64 " bytes, expected %" PRId64 ", with DSP %" PRId64 " or with MVE %" PRId64,
                        name, found, needed.scalar, needed.dsp, needed.mve);
        return Error::Ok;
    }
    const int64_t wanted = std::max({target_cores.scalar ? needed.scalar : 0, target_cores.dsp ? needed.dsp : 0,
                                     target_cores.mve ? needed.mve : 0});
    CORTADO_REQUIRE(found == wanted, InvalidArgument,
                    "%s: found %" PRId64 " bytes, expected %" PRId64 " as CMSIS-NN on the file's target", name, found,
                    wanted);
    return Error::Ok;
}

ScratchBytes convolution_scratch(const Image &in, const Image &out, const Window &window, int32_t depth)
{
    if (takes_pointwise_kernel(in, window, depth)) {
        return {0, 0, 0};
    }
    const int64_t column = int64_t(window.kernel.h) * window.kernel.w * in.channels;
    const int64_t two_wide = 4 * round_up(column, 4); /* two columns of int16 */
    const int64_t row = takes_row_kernel(in, window, depth) ? row_kernel_scratch(in, out, window) : -1;
    return {two_wide, two_wide, row < 0 ? 4 * round_up(column, 16) : row};
}

ScratchBytes depthwise_scratch(const Image &in, const Image &out, const Window &window)
{
    const int64_t taps = int64_t(window.kernel.h) * window.kernel.w;
    ScratchBytes needed = {0, 0, 0};
    if (in.channels == out.channels && in.batch == 1 && is_plain(window.dilation)) {
        const bool three = window.kernel.h == 3 && window.kernel.w == 3 && window.padding.h <= 1 && window.padding.w <= 1;
        needed.dsp = three ? 0 : 2 * taps * in.channels;
        needed.mve = 4 * depthwise_block * taps;
    }
    if (in.channels == 1 && out.channels > 1) { /* an ordinary convolution, its weights turned round first */
        needed.mve = convolution_scratch(in, out, window, 1).mve + taps * out.channels;
    }
    return needed;
}

TransposeScratch transpose_scratch(const Image &in, const Image &out, const Window &window)
{
    const int64_t column = int64_t(window.kernel.h) * window.kernel.w * in.channels;
    if (reverses_weights(in, window)) {
        const int64_t two_wide = 4 * round_up(column, 4), weights = column * out.channels;
        return {{two_wide, two_wide, 4 * round_up(column, 16)}, {weights, weights, weights}};
    }
    const int64_t across = int64_t(in.width - 1) * window.stride.w + std::max(window.kernel.w, window.stride.h);
    const int64_t sums = 4 * across * out.channels * std::max(window.kernel.h, window.stride.h);
    return {{sums, sums, sums}, {0, 0, 0}};
}

/* ---- Layers that CMSIS-NN gets wrong ------------------------------------------------------------------------------ */

Error check_convolution(const Image &in, const Window &w, int32_t depth)
{
    if (!may_use_mve() || !takes_row_kernel(in, w, depth)) {
        return Error::Ok;
    }
    CORTADO_REQUIRE(w.padding.h == 0, NotSupported,
                    "CMSIS-NN's MVE kernel for a height of 1 makes one row, found a vertical padding of %" PRId32
                    "; put the length on the height",
                    w.padding.h);
    const int64_t rest = (int64_t(in.width) + 2 * int64_t(w.padding.w) - w.kernel.w) % w.stride.w;
    const bool ends = w.padding.w == 0 ? w.stride.w == 1 : (w.padding.w - 1) % w.stride.w == 0;
    CORTADO_REQUIRE(rest == 0 && ends && in.width >= w.kernel.w, NotSupported,
                    "CMSIS-NN's MVE kernel for a height of 1 is wrong at the ends of a width of %" PRId32
                    " under %" PRId32 " taps with stride %" PRId32 " and padding %" PRId32
                    "; put the length on the height",
                    in.width, w.kernel.w, w.stride.w, w.padding.w);
    return Error::Ok;
}

Error check_depthwise(const Image &in, const Image &out, const Window &window)
{
    CORTADO_REQUIRE(in.batch == 1, InvalidArgument, "found a batch of %" PRId32 ", expected one image", in.batch);
    return in.channels == 1 && out.channels > 1 ? check_convolution(in, window, 1) : Error::Ok;
}

Error check_transpose(const Image &in, const Window &w, const Pair &extra)
{
    CORTADO_REQUIRE(is_plain(w.dilation), NotSupported, "CMSIS-NN's transposed convolution ignores the dilation");
    if (reverses_weights(in, w)) {
        CORTADO_REQUIRE(in.batch == 1 && w.padding.h < w.kernel.h && w.padding.w < w.kernel.w, NotSupported,
                        "CMSIS-NN's transposed convolution with reversed weights takes one image and a padding smaller "
                        "than the kernel");
        return Error::Ok;
    }
    const bool rows = w.padding.h % w.stride.h == 0 && extra.h <= w.padding.h &&
                      w.stride.h + w.padding.h <= w.kernel.h + extra.h &&
                      w.padding.h <= int64_t(in.height) * w.stride.h;
    const bool columns = extra.w <= w.padding.w && (w.stride.w <= w.stride.h || w.stride.w <= w.kernel.w);
    CORTADO_REQUIRE(rows && columns, NotSupported,
                    "CMSIS-NN's transposed convolution is wrong for this kernel, stride, padding and output padding");
    return Error::Ok;
}

bool is_taken_for_channels_last(const Tensor &tensor)
{
    return tensor.dim() == 4 && (tensor.size(1) == 1 || (tensor.size(2) == 1 && tensor.size(3) == 1));
}

} // namespace cortado

extern "C" int cortado_cortex_m_target(const char *target)
{
    cortado::target_cores = target == nullptr ? cortado::nobody_said : cortado::cores_of(target);
    return cortado::target_cores.told ? 0 : -1;
}

extern "C" void cortado_cortex_m_imitate_arm(int imitate) { cortado::imitates_arm = imitate != 0; }
