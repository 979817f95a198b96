/* SPDX-License-Identifier: Apache-2.0
 *
 * What ExecuTorch's own cortex_m operators, with Arm's CMSIS-NN underneath, ask of a call beyond its signature.
 *
 * Cortado's kernels could make some of these calls. They are refused all the same, so that a .pte that runs here runs
 * on Arm's kernels too, with the same bits. Some limits depend on the instruction set: see cortado_cortex_m_target.
 */
#ifndef CORTADO_ARM_LIMITS_H
#define CORTADO_ARM_LIMITS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Says which target the .pte in hand was compiled for, such as "cortex-m4" or "cortex-m55+nomve": the operators then ask
 * what Arm's kernels ask on that core, above all scratch tensors of exactly the size that CMSIS-NN needs there. With
 * "cortex-m" (every core) that is the largest size over all of them. Returns 0, or -1 if the string is no target.
 *
 * Where nobody says it, or it is no target, a scratch tensor may have any of the three sizes (no DSP, DSP, MVE), and a
 * call that is wrong on any core is refused. */
int cortado_cortex_m_target(const char *target);

/* With 1, quantize_per_tensor has the bits of ExecuTorch's own operator on the target's core also where they are not the
 * reference's: for a target with MVE alone, values half-way between two codes and values of 32,768 steps or more from
 * zero. That is for a host that is to say what a core would give. It is 0 until somebody says otherwise: firmware gets
 * the reference's bits. */
void cortado_cortex_m_imitate_arm(int imitate);

#ifdef __cplusplus
}

#include "arguments.h"

#include <cstddef>
#include <cstdint>

namespace cortado {

/* What the target's cores do. A target that stands for several kinds of core does all of it. */
bool may_use_mve();
bool may_lack_mve();

/* Whether quantize_per_tensor is to have the bits of ExecuTorch's own operator for MVE. */
bool quantizes_as_mve();

/* Bytes of scratch that CMSIS-NN asks for. */
struct ScratchBytes {
    int64_t scalar, dsp, mve;
};

Error check_scratch(const Tensor &scratch, const ScratchBytes &needed, const char *name);

/* `depth`: the input channels that one output channel sees. */
ScratchBytes convolution_scratch(const Image &in, const Image &out, const Window &window, int32_t depth);
ScratchBytes depthwise_scratch(const Image &in, const Image &out, const Window &window);

/* Two scratch tensors: sums or columns, and reversed weights. */
struct TransposeScratch {
    ScratchBytes sums, weights;
};

TransposeScratch transpose_scratch(const Image &in, const Image &out, const Window &window);

/* Is CMSIS-NN's kernel right for this layer on the target's cores? */
Error check_convolution(const Image &in, const Window &window, int32_t depth);
Error check_depthwise(const Image &in, const Image &out, const Window &window);
Error check_transpose(const Image &in, const Window &window, const Pair &output_padding);

/* Rank 4 tensors that the runtime takes for channels-last, whatever their order of dimensions says. */
bool is_taken_for_channels_last(const Tensor &tensor);

} // namespace cortado

#endif /* __cplusplus */

#endif /* CORTADO_ARM_LIMITS_H */
