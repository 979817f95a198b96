/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop that walks a network's tables once more, for an arena that lies in several memories. Under a name of its
 * own: a firmware may have networks of both kinds.
 */
#include "cortado_run.h"

#define CORTADO_REGIONS
#undef cortado_run_stage
#define cortado_run_stage cortado_run_stage_regions
#include "cortado_run.c"
