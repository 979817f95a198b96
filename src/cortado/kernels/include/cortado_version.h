/* SPDX-License-Identifier: Apache-2.0
 *
 * Of which Cortado these kernels are. The functions that a network calls have it in their names: a linker that is given
 * a network and kernels of different versions doesn't find them, and says which version it looked for.
 */
#ifndef CORTADO_VERSION_H
#define CORTADO_VERSION_H

#define CORTADO_KERNELS_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */

/* Settings that change the tables are in the names too: a network and kernels with different ones don't link. */
#if defined(CORTADO_ENABLE_RUNTIME_CHECKS) && defined(CORTADO_PROFILE)
#define CORTADO_VERSIONED(name) name##_of_version_0_1_0_with_runtime_checks_and_profile
#elif defined(CORTADO_ENABLE_RUNTIME_CHECKS)
#define CORTADO_VERSIONED(name) name##_of_version_0_1_0_with_runtime_checks
#elif defined(CORTADO_PROFILE)
#define CORTADO_VERSIONED(name) name##_of_version_0_1_0_with_profile
#else
#define CORTADO_VERSIONED(name) name##_of_version_0_1_0
#endif

#endif /* CORTADO_VERSION_H */
