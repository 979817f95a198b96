/* SPDX-License-Identifier: Apache-2.0
 *
 * Places the emulator's plugin watches for: empty functions whose calls begin and end the measured region, and split
 * it into steps. Calling them costs two instructions and changes nothing.
 */
#ifndef CORTADO_MARKERS_H
#define CORTADO_MARKERS_H

void cortado_marker_begin(void);
void cortado_marker_end(void);
void cortado_marker_step(void);
void cortado_marker_pause(void); /* what follows is no part of the measured region, */
void cortado_marker_resume(void); /* up to here */

#endif
