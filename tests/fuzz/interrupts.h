/* SPDX-License-Identifier: Apache-2.0
 *
 * From start to stop, a timer interrupt comes every few hundred instructions.
 */
#ifndef CORTADO_FUZZ_INTERRUPTS_H
#define CORTADO_FUZZ_INTERRUPTS_H

void cortado_interrupts_start(void);
void cortado_interrupts_stop(void); /* prints "interrupts N" */

#endif /* CORTADO_FUZZ_INTERRUPTS_H */
