/* SPDX-License-Identifier: Apache-2.0
 *
 * Of which Cortado these kernels are: its version, and a hash of all sources of the kernel library, which tells
 * apart what was changed between two releases. The functions that a network calls have both in their names: a linker
 * that is given a network and other kernels doesn't find them, and says which it looked for. The zeros become the hash
 * in a bundle.
 */
#ifndef CORTADO_VERSION_H
#define CORTADO_VERSION_H

#define CORTADO_KERNELS_VERSION_NUMBER 200 /* 10000 * major + 100 * minor + patch */
#define CORTADO_KERNELS_HASH 0x00000000u

/* Settings that change the tables are in the names too: a network and kernels with different ones don't link. */
#ifdef CORTADO_CHECK_RANGES
#define CORTADO_COUNTING(name) name##_counting_ranges
#else
#define CORTADO_COUNTING(name) name
#endif
#if defined(CORTADO_ENABLE_RUNTIME_CHECKS) && defined(CORTADO_PROFILE)
#define CORTADO_VERSIONED(name) \
    CORTADO_COUNTING(name##_of_version_0_2_0_kernels_00000000_with_runtime_checks_and_profile)
#elif defined(CORTADO_ENABLE_RUNTIME_CHECKS)
#define CORTADO_VERSIONED(name) CORTADO_COUNTING(name##_of_version_0_2_0_kernels_00000000_with_runtime_checks)
#elif defined(CORTADO_PROFILE)
#define CORTADO_VERSIONED(name) CORTADO_COUNTING(name##_of_version_0_2_0_kernels_00000000_with_profile)
#else
#define CORTADO_VERSIONED(name) CORTADO_COUNTING(name##_of_version_0_2_0_kernels_00000000)
#endif

#endif /* CORTADO_VERSION_H */
