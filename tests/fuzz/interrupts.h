/* SPDX-License-Identifier: Apache-2.0
 *
 * From start to stop, a timer interrupt comes every few hundred instructions.
 */
#ifndef CORTADO_FUZZ_INTERRUPTS_H
#define CORTADO_FUZZ_INTERRUPTS_H

void cortado_interrupts_start(void);
/* How many there have been since the board was started. */
unsigned cortado_interrupts_stop(void);

#endif /* CORTADO_FUZZ_INTERRUPTS_H */
