/* SPDX-License-Identifier: Apache-2.0
 *
 * Every source of a bundle includes this one, the assembly files too: weights are packed as little-endian words, and
 * CORTADO_ALIGNED_ONLY is for all of them or none.
 */
#if defined(__has_include)
#if __has_include("cortado_settings.h") /* where a build system has no flags to choose */
#include "cortado_settings.h"
#endif
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "this bundle is little-endian, its weights included; compile it without -mbig-endian"
#endif

/* Loads and stores are aligned to what they move: set by hand, or because the compiler makes no others either. Small
 * cores have no others. */
#if defined(__thumb__) && !defined(__ARM_ARCH_6M__) && !defined(__ARM_ARCH_8M_BASE__)
#if !defined(__ARM_FEATURE_UNALIGNED) && !defined(CORTADO_ALIGNED_ONLY)
#define CORTADO_ALIGNED_ONLY
#endif
#if defined(__ARM_FEATURE_UNALIGNED) && defined(CORTADO_ALIGNED_ONLY)
#error "CORTADO_ALIGNED_ONLY is for a compiler that makes no unaligned accesses either: add -mno-unaligned-access"
#endif
#endif
