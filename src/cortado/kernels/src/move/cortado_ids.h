/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids from outside, as rows of a table. Internal: not part of the public interface.
 */
#ifndef CORTADO_IDS_H
#define CORTADO_IDS_H

#include "cortado_math.h"

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#include "cortado_run.h"
#endif

/* An id within a table of `count` rows: whatever comes in, nothing outside of the table is read. */
static inline int32_t cortado_id(int32_t id, int32_t count)
{
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
    if (id < 0 || id >= count) {
        cortado_check_failed("an embedding", "got an id that is not in its", "table");
    }
#endif
    return cortado_clamp(id, 0, count - 1);
}

#endif /* CORTADO_IDS_H */
