/* SPDX-License-Identifier: Apache-2.0
 *
 * A QEMU plugin that finds the first load outside a program's buffers.
 *
 * `-plugin libread_watch.so,config=FILE`. The file is binary, 64-bit words: the addresses of the begin and end markers,
 * the image's first and last byte + 1, the number of buffers, then first and last byte + 1 of each, in order. A load
 * between the markers that touches the image outside every buffer is printed on standard error.
 */
#include "qemu_plugin_v1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PLUGIN_EXPORT int qemu_plugin_version = 1;

#define LOADS_AND_STORES ((enum qemu_plugin_mem_rw)3) /* loads alone are not reported by QEMU 7.2 */

static struct {
    uint64_t begin, end, low, high, count;
} head;
static uint64_t *buffers;
static bool inside;
static uint64_t strays, loads;

static void on_begin(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    inside = true;
}

static void on_end(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    inside = false;
}

/* Whether one buffer holds all of [low, high). */
static bool allowed(uint64_t low, uint64_t high) {
    uint64_t first = 0, last = head.count;

    while (first < last) {
        const uint64_t middle = (first + last) / 2;

        if (buffers[2 * middle + 1] <= low) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first < head.count && buffers[2 * first] <= low && high <= buffers[2 * first + 1];
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *userdata) {
    const uint64_t size = (uint64_t)1 << qemu_plugin_mem_size_shift(info);

    (void)vcpu;
    if (!inside || qemu_plugin_mem_is_store(info) || address + size <= head.low || address >= head.high) {
        return;
    }
    ++loads;
    if (!allowed(address, address + size) && strays++ == 0) {
        fprintf(stderr, "stray load of %llu bytes at 0x%llx by 0x%llx\n", (unsigned long long)size,
                (unsigned long long)address, (unsigned long long)(uintptr_t)userdata);
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    size_t i;

    (void)id;
    for (i = 0; i < qemu_plugin_tb_n_insns(tb); ++i) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t pc = qemu_plugin_insn_vaddr(insn);

        if (pc == head.begin) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
        }
        if (pc == head.end) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
        }
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, LOADS_AND_STORES,
                                         (void *)(uintptr_t)pc);
    }
}

static void on_exit_report(qemu_plugin_id_t id, void *userdata) {
    (void)id;
    (void)userdata;
    fprintf(stderr, "loads %llu stray %llu\n", (unsigned long long)loads, (unsigned long long)strays);
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    FILE *file = argc == 1 && strncmp(argv[0], "config=", 7) == 0 ? fopen(argv[0] + 7, "rb") : NULL;

    (void)info;
    if (file == NULL || fread(&head, sizeof head, 1, file) != 1) {
        return -1;
    }
    buffers = malloc(2 * sizeof *buffers * (size_t)head.count + 1);
    if (buffers == NULL || fread(buffers, 2 * sizeof *buffers, (size_t)head.count, file) != head.count) {
        return -1;
    }
    (void)fclose(file);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_report, NULL);
    return 0;
}
