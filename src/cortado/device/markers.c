/* SPDX-License-Identifier: Apache-2.0 */
#include "markers.h"

/* The empty asm keeps the calls: without a side effect the compiler may drop or merge the functions. */
__attribute__((noinline)) void cortado_marker_begin(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void cortado_marker_end(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void cortado_marker_step(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void cortado_marker_pause(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void cortado_marker_resume(void) { __asm__ volatile("" ::: "memory"); }
