/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the operators of cortex_m_ops.h into ExecuTorch's registry.
 *
 * By default that happens before main(). A linker drops this file from a static library because nothing refers to it:
 * link it whole (the CMake target cortado_cortex_m_ops is an object library, so it is), or define
 * CORTADO_ET_MANUAL_REGISTRATION and call cortado_register_cortex_m_ops() yourself, once.
 */
#include "boxing.h"
#include "cortex_m_ops.h"

namespace {

using executorch::runtime::Kernel;

#define CORTADO_NAME(operator_name) constexpr char operator_name##_name[] = "cortex_m::" #operator_name ".out";
CORTADO_CORTEX_M_OPS(CORTADO_NAME)

#define CORTADO_KERNEL(operator_name) \
    Kernel(operator_name##_name, cortado::boxed<operator_name##_name, &cortex_m::native::operator_name##_out>),

} // namespace

extern "C" int cortado_register_cortex_m_ops(void)
{
    static const Kernel kernels[] = {CORTADO_CORTEX_M_OPS(CORTADO_KERNEL)};
    const executorch::runtime::Span<const Kernel> all(kernels, sizeof kernels / sizeof kernels[0]);
    return executorch::runtime::register_kernels(all) == executorch::runtime::Error::Ok ? 0 : -1;
}

#ifndef CORTADO_ET_MANUAL_REGISTRATION
static const int registered = cortado_register_cortex_m_ops();
#endif
