/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of core this is. Internal, for C and assembly alike: nothing here but the preprocessor's.
 *
 * A file whose name ends in __scalar_dsp serves three kinds of core, each with code of its own:
 *
 *   small   no long multiply, no divide, no unaligned access (Armv6-M, Armv8-M Baseline)   symbols end in __scalar
 *   long    a long multiply (Armv7-M, Armv8-M Mainline without the DSP extension)          symbols end in __scalar
 *   DSP     two 16-bit products per multiply (cores with vector instructions have it too)  symbols end in __dsp
 */
#ifndef CORTADO_ISA_H
#define CORTADO_ISA_H

#include "cortado_endian.h"

#ifndef CORTADO_SMALL_CORE /* may be set by hand, to test that code elsewhere */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define CORTADO_SMALL_CORE 1
#else
#define CORTADO_SMALL_CORE 0
#endif
#endif

/* The symbol of a kernel or an inner loop of such a file. */
#if defined(__ARM_FEATURE_DSP) && !CORTADO_SMALL_CORE
#define CORTADO_ISA(name) name##__dsp
#else
#define CORTADO_ISA(name) name##__scalar
#endif

#endif /* CORTADO_ISA_H */
