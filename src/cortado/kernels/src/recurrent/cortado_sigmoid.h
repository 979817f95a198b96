/* SPDX-License-Identifier: Apache-2.0
 *
 * sigmoid((k - 256) / 16) with 16 fractional bits. Internal.
 */
#ifndef CORTADO_SIGMOID_H
#define CORTADO_SIGMOID_H

#include "cortado.h"

extern const uint16_t cortado_sigmoid_table[513];

#endif /* CORTADO_SIGMOID_H */
