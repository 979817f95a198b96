/* SPDX-License-Identifier: Apache-2.0
 *
 * Of which Cortado these kernels are. The functions that a network calls have it in their names: a linker that is given
 * a network and kernels of different versions doesn't find them, and says which version it looked for.
 */
#ifndef CORTADO_VERSION_H
#define CORTADO_VERSION_H

#define CORTADO_KERNELS_VERSION_NUMBER 100 /* 10000 * major + 100 * minor + patch */
#define CORTADO_VERSIONED(name) name##_of_version_0_1_0

#endif /* CORTADO_VERSION_H */
