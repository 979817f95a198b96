/* SPDX-License-Identifier: Apache-2.0
 *
 * A QEMU plugin that watches firmware between two marker functions: counts every instruction by address and every way
 * from one block of instructions to the next, and checks every store against the ranges the running call may write.
 *
 * `-plugin libwatch.so,config=FILE`. The file has one directive a line, numbers in C notation:
 *
 *   report PATH           where to write the result
 *   begin ADDRESS         the marker functions' first instructions; `step` may come several times
 *   end ADDRESS
 *   step ADDRESS
 *   pause ADDRESS         likewise: from a pause to the next resume nothing is counted or checked; both may be missing
 *   resume ADDRESS
 *   skip LOW HIGH         instructions in [LOW, HIGH) are not counted; may come several times
 *   count                 count instructions
 *   edges                 count in the first region how often each block (a run of instructions without a jump, as the
 *                         emulator translates it) follows each other one, by the STEP of the `call` line
 *   stores                check stores
 *   limit COUNT           ends the emulator, with exit code 124, soon after so many instructions, marked or not
 *   idle SECONDS          ends it, with exit code 125, when the core has slept for so long
 *   always LOW HIGH       every call may write [LOW, HIGH); may come several times
 *   call STEP [LOW HIGH]... the n-th `call` line: what may be written from the n-th execution of a step marker
 *                         until the next; STEP is only reported back
 *
 * Calls are numbered from 0 in each region. Before the first step marker only the `always` ranges may be written.
 *
 * The report, line by line:
 *
 *   region INSTRUCTIONS CALLS             one per region
 *   segment REGION CALL INSTRUCTIONS      what a region's call took; call -1 is before the first step marker
 *   pc ADDRESS COUNT                      over all regions
 *   block NUMBER ADDRESS INSTRUCTIONS     numbered from 1; 0 stands for what came before the first
 *   edge STEP FROM TO COUNT               STEP is -1 before the first step marker, -2 past the table
 *   stores TOTAL STRAY
 *   stray PC ADDRESS SIZE REGION CALL STEP   the first one; STEP is -1 before the first marker, -2 past the table
 *   complete                              the report was not cut off
 */
#include "qemu_plugin_v1.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PLUGIN_EXPORT int qemu_plugin_version = 1;

enum { MAX_STEPS = 256, MAX_SKIPS = 64, SLOT_BITS = 20, SLOTS = 1 << SLOT_BITS, TABLE = 2 * SLOTS };
enum { LOOKS_PER_SECOND = 50, EXIT_LIMIT = 124, EXIT_IDLE = 125 };
enum { BLOCK_BITS = 18, MAX_BLOCKS = 1 << BLOCK_BITS, EDGE_BITS = 20, EDGES = 1 << EDGE_BITS };

typedef struct {
    uint64_t low, high;
} range_t;

typedef struct {
    size_t first, count; /* in call_ranges */
    long step;
} call_t;

typedef struct {
    uint64_t instructions;
    long calls;
} region_t;

typedef struct {
    size_t region;
    long call;
    uint64_t instructions;
} segment_t;

/* A growing array: `items` holds `count` elements and has room for `room`. */
#define LIST(type)    \
    struct {          \
        type *items;  \
        size_t count; \
        size_t room;  \
    }

static struct {
    char *report;
    uint64_t begin, end, pause, resume;
    uint64_t steps[MAX_STEPS];
    size_t step_count;
    range_t skips[MAX_SKIPS];
    size_t skip_count;
    bool counting, checking, walking;
    uint64_t limit, idle;
} config;

static LIST(range_t) always_ranges;
static LIST(range_t) call_ranges;
static LIST(call_t) calls;
static LIST(region_t) regions;
static LIST(segment_t) segments;

/* Instruction counts: each address gets a slot when it is first translated. The generated code adds to counts[slot]
 * directly, so the array must not move. */
static uint64_t counts[SLOTS];
static uint64_t totals[SLOTS];
static uint64_t slot_pc[SLOTS];
static uint32_t slot_of[TABLE]; /* hash table of slot + 1 */
static uint32_t slot_count;

/* Blocks have numbers, and edges between them a hash table: the step and both numbers in one key, 0 if free. */
typedef struct {
    uint64_t pc;
    size_t instructions;
    bool is_step;
} block_t;

typedef struct {
    uint64_t key, count;
} edge_t;

static block_t blocks[MAX_BLOCKS];
static uint32_t block_count = 1;
static uint32_t last_block;
static edge_t edges[EDGES];
static uint32_t edge_count;
static edge_t *last_edge = &edges[0];

static bool inside, paused;
static uint64_t kept[SLOTS]; /* the counts at the pause */
static uint32_t kept_count;
static long current_call;
static uint64_t counted; /* up to the last step marker of this region */
static uint64_t store_count, stray_count;
static struct {
    uint64_t pc, address, size;
    size_t region;
    long call, step;
} stray;

static void die(const char *message, const char *detail) {
    fprintf(stderr, "watch plugin: %s %s\n", message, detail);
    exit(EXIT_FAILURE);
}

static void *grow(void *items, size_t count, size_t *room, size_t size) {
    void *more;

    if (count < *room) {
        return items;
    }
    *room = *room == 0 ? 256 : *room * 2;
    more = realloc(items, *room * size);
    if (more == NULL) {
        die("out of memory", "");
    }
    return more;
}

#define APPEND(list, item)                                                                                \
    do {                                                                                                  \
        (list).items = grow((list).items, (list).count, &(list).room, sizeof *(list).items);              \
        (list).items[(list).count++] = (item);                                                            \
    } while (0)

/* ---- Counting ------------------------------------------------------------------------------------------------- */

static uint64_t *counter(uint64_t pc) {
    uint32_t at = (uint32_t)((pc >> 1) * 2654435761u) % TABLE;

    while (slot_of[at] != 0) {
        if (slot_pc[slot_of[at] - 1] == pc) {
            return &counts[slot_of[at] - 1];
        }
        at = (at + 1) % TABLE;
    }
    if (slot_count == SLOTS) {
        die("too many different instructions", "");
    }
    slot_pc[slot_count] = pc;
    slot_of[at] = ++slot_count;
    return &counts[slot_count - 1];
}

static uint64_t total_count(void) {
    uint64_t sum = 0;
    uint32_t slot;

    for (slot = 0; slot < slot_count; ++slot) {
        sum += counts[slot];
    }
    return sum;
}

/* ---- Markers -------------------------------------------------------------------------------------------------- */

static void close_segment(void) {
    segment_t segment;

    if (!config.counting) {
        return;
    }
    segment.region = regions.count;
    segment.call = current_call;
    segment.instructions = total_count() - counted;
    counted += segment.instructions;
    APPEND(segments, segment);
}

static void on_begin(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    memset(counts, 0, slot_count * sizeof counts[0]);
    counted = 0;
    current_call = -1;
    inside = true;
}

static void on_step(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    if (inside) {
        close_segment();
        ++current_call;
    }
}

static void on_end(unsigned int vcpu, void *userdata) {
    region_t region;
    uint32_t slot;

    (void)vcpu;
    (void)userdata;
    if (!inside) {
        return;
    }
    close_segment();
    region.instructions = counted;
    region.calls = current_call + 1;
    APPEND(regions, region);
    for (slot = 0; slot < slot_count; ++slot) {
        totals[slot] += counts[slot];
    }
    inside = false;
}

static void on_pause(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    paused = inside;
    inside = false;
    kept_count = slot_count;
    memcpy(kept, counts, slot_count * sizeof counts[0]);
}

static void on_resume(unsigned int vcpu, void *userdata) {
    (void)vcpu;
    (void)userdata;
    if (paused) {
        memset(counts, 0, slot_count * sizeof counts[0]);
        memcpy(counts, kept, kept_count * sizeof counts[0]);
        inside = true;
        paused = false;
    }
}

/* ---- Edges ---------------------------------------------------------------------------------------------------- */

static long step_of(long call) {
    if (call < 0) {
        return -1;
    }
    return (size_t)call < calls.count ? calls.items[call].step : -2;
}

static edge_t *edge(uint64_t key) {
    uint32_t at = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> (64 - EDGE_BITS));

    while (edges[at].key != 0 && edges[at].key != key) {
        at = (at + 1) % EDGES;
    }
    if (edges[at].key == 0) {
        if (++edge_count > EDGES / 4 * 3) {
            die("too many different edges", "");
        }
        edges[at].key = key;
    }
    return &edges[at];
}

static void on_block(unsigned int vcpu, void *userdata) {
    const block_t *block = userdata;
    const uint32_t number = (uint32_t)(block - blocks);
    const uint32_t from = last_block;
    uint64_t key;

    if (block->is_step) {
        on_step(vcpu, NULL);
    }
    last_block = number;
    if (!inside || regions.count != 0) {
        return;
    }
    key = (((uint64_t)(step_of(current_call) + 3) << BLOCK_BITS | from) << BLOCK_BITS) | number;
    if (last_edge->key != key) {
        last_edge = edge(key);
    }
    ++last_edge->count;
}

/* The emulator may translate a block again; it keeps its number. */
static block_t *block_at(uint64_t pc, size_t instructions) {
    uint32_t number = block_count;
    size_t i;

    while (number > 1 && (blocks[number - 1].pc != pc || blocks[number - 1].instructions != instructions)) {
        --number;
    }
    if (number > 1) {
        return &blocks[number - 1];
    }
    if (block_count == MAX_BLOCKS) {
        die("too many different blocks", "");
    }
    blocks[block_count].pc = pc;
    blocks[block_count].instructions = instructions;
    for (i = 0; i < config.step_count; ++i) {
        blocks[block_count].is_step = blocks[block_count].is_step || pc == config.steps[i];
    }
    return &blocks[block_count++];
}

/* ---- Stores --------------------------------------------------------------------------------------------------- */

static bool within(const range_t *ranges, size_t count, uint64_t low, uint64_t high) {
    size_t i;

    for (i = 0; i < count; ++i) {
        if (low >= ranges[i].low && high <= ranges[i].high) {
            return true;
        }
    }
    return false;
}

static void on_store(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *userdata) {
    const uint64_t size = (uint64_t)1 << qemu_plugin_mem_size_shift(info);
    long step = -1;

    (void)vcpu;
    if (!inside || !qemu_plugin_mem_is_store(info)) { /* QEMU 7.2 reports some loads too */
        return;
    }
    ++store_count;
    if (current_call >= 0) {
        step = -2;
        if ((size_t)current_call < calls.count) {
            const call_t *call = &calls.items[current_call];

            if (within(&call_ranges.items[call->first], call->count, address, address + size)) {
                return;
            }
            step = call->step;
        }
    }
    if (within(always_ranges.items, always_ranges.count, address, address + size) || stray_count++ != 0) {
        return;
    }
    stray.pc = (uint64_t)(uintptr_t)userdata;
    stray.address = address;
    stray.size = size;
    stray.region = regions.count;
    stray.call = current_call;
    stray.step = step;
}

/* ---- Limits --------------------------------------------------------------------------------------------------- */

static uint64_t spent; /* instructions, which the generated code adds block by block */

/* Looks at it from a thread of its own: time on a machine that others use too says nothing of the firmware. */
static void *guard(void *unused) {
    const struct timespec pause = {0, 1000000000 / LOOKS_PER_SECOND};
    uint64_t before = 0, still = 0;

    (void)unused;
    for (;;) {
        const uint64_t now = __atomic_load_n(&spent, __ATOMIC_RELAXED);

        if (config.limit != 0 && now > config.limit) {
            _exit(EXIT_LIMIT);
        }
        still = now == before ? still + 1 : 0;
        if (config.idle != 0 && still > config.idle * LOOKS_PER_SECOND) {
            _exit(EXIT_IDLE);
        }
        before = now;
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* ---- Translation ---------------------------------------------------------------------------------------------- */

static void watch(struct qemu_plugin_insn *insn) {
    const uint64_t pc = qemu_plugin_insn_vaddr(insn);
    size_t i;

    if (pc == config.begin) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    if (pc == config.end) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    if (pc == config.pause) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pause, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    if (pc == config.resume) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_resume, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    for (i = 0; i < config.step_count && !config.walking; ++i) {
        if (pc == config.steps[i]) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_step, QEMU_PLUGIN_CB_NO_REGS, NULL);
        }
    }
    if (config.counting && !within(config.skips, config.skip_count, pc, pc + 1)) {
        qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, counter(pc), 1);
    }
    if (config.checking) {
        qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
                                         (void *)(uintptr_t)pc);
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    const size_t count = qemu_plugin_tb_n_insns(tb);
    size_t i;

    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &spent, count);
    if (config.walking) {
        block_t *block = block_at(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)), count);

        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
    }
    for (i = 0; i < count; ++i) {
        watch(qemu_plugin_tb_get_insn(tb, i));
    }
}

/* ---- Report --------------------------------------------------------------------------------------------------- */

static void write_counts(FILE *file) {
    size_t i;

    for (i = 0; i < segments.count; ++i) {
        fprintf(file, "segment %zu %ld %llu\n", segments.items[i].region, segments.items[i].call,
                (unsigned long long)segments.items[i].instructions);
    }
    for (i = 0; i < slot_count; ++i) {
        if (totals[i] != 0) {
            fprintf(file, "pc 0x%llx %llu\n", (unsigned long long)slot_pc[i], (unsigned long long)totals[i]);
        }
    }
}

static void write_edges(FILE *file) {
    uint32_t i;

    for (i = 1; i < block_count; ++i) {
        fprintf(file, "block %u 0x%llx %zu\n", i, (unsigned long long)blocks[i].pc, blocks[i].instructions);
    }
    for (i = 0; i < EDGES; ++i) {
        if (edges[i].count != 0) {
            const uint64_t key = edges[i].key;

            fprintf(file, "edge %ld %u %u %llu\n", (long)(key >> (2 * BLOCK_BITS)) - 3,
                    (uint32_t)(key >> BLOCK_BITS) % MAX_BLOCKS, (uint32_t)key % MAX_BLOCKS,
                    (unsigned long long)edges[i].count);
        }
    }
}

static void on_exit_report(qemu_plugin_id_t id, void *userdata) {
    FILE *file = fopen(config.report, "w");
    size_t i;

    (void)id;
    (void)userdata;
    if (config.limit != 0 && spent > config.limit) { /* too soon for the guard to see */
        _exit(EXIT_LIMIT);
    }
    if (file == NULL) {
        die("cannot write", config.report);
    }
    for (i = 0; i < regions.count; ++i) {
        fprintf(file, "region %llu %ld\n", (unsigned long long)regions.items[i].instructions, regions.items[i].calls);
    }
    write_counts(file);
    if (config.walking) {
        write_edges(file);
    }
    fprintf(file, "stores %llu %llu\n", (unsigned long long)store_count, (unsigned long long)stray_count);
    if (stray_count != 0) {
        fprintf(file, "stray 0x%llx 0x%llx %llu %zu %ld %ld\n", (unsigned long long)stray.pc,
                (unsigned long long)stray.address, (unsigned long long)stray.size, stray.region, stray.call,
                stray.step);
    }
    fprintf(file, "complete\n");
    if (fclose(file) != 0) {
        die("cannot write", config.report);
    }
}

/* ---- Configuration -------------------------------------------------------------------------------------------- */

/* The next word of the line as a number; false at its end. */
static bool number(uint64_t *value) {
    const char *word = strtok(NULL, " \n");
    char *end;

    if (word == NULL) {
        return false;
    }
    *value = strtoull(word, &end, 0);
    if (*end != '\0') {
        die("not a number:", word);
    }
    return true;
}

static uint64_t one_number(const char *directive) {
    uint64_t value = 0;

    if (!number(&value)) {
        die("a number is missing after", directive);
    }
    return value;
}

static range_t one_range(const char *directive) {
    range_t range;

    range.low = one_number(directive);
    range.high = one_number(directive);
    return range;
}

static void read_call(void) {
    call_t call;
    range_t range;

    call.step = (long)one_number("call");
    call.first = call_ranges.count;
    while (number(&range.low)) {
        range.high = one_number("call");
        APPEND(call_ranges, range);
    }
    call.count = call_ranges.count - call.first;
    APPEND(calls, call);
}

static void read_report(void) {
    const char *path = strtok(NULL, "\n");

    config.report = path == NULL ? NULL : strdup(path);
}

static void read_range_list(range_t list[], size_t *count, size_t most, const char *directive) {
    if (*count == most) {
        die("too many lines of", directive);
    }
    list[(*count)++] = one_range(directive);
}

static void read_step(void) {
    if (config.step_count == MAX_STEPS) {
        die("too many lines of", "step");
    }
    config.steps[config.step_count++] = one_number("step");
}

static void read_directive(const char *directive) {
    if (strcmp(directive, "call") == 0) {
        read_call();
    } else if (strcmp(directive, "report") == 0) {
        read_report();
    } else if (strcmp(directive, "begin") == 0) {
        config.begin = one_number(directive);
    } else if (strcmp(directive, "end") == 0) {
        config.end = one_number(directive);
    } else if (strcmp(directive, "pause") == 0) {
        config.pause = one_number(directive);
    } else if (strcmp(directive, "resume") == 0) {
        config.resume = one_number(directive);
    } else if (strcmp(directive, "step") == 0) {
        read_step();
    } else if (strcmp(directive, "skip") == 0) {
        read_range_list(config.skips, &config.skip_count, MAX_SKIPS, directive);
    } else if (strcmp(directive, "always") == 0) {
        APPEND(always_ranges, one_range(directive));
    } else if (strcmp(directive, "count") == 0) {
        config.counting = true;
    } else if (strcmp(directive, "edges") == 0) {
        config.walking = true;
    } else if (strcmp(directive, "stores") == 0) {
        config.checking = true;
    } else if (strcmp(directive, "limit") == 0) {
        config.limit = one_number(directive);
    } else if (strcmp(directive, "idle") == 0) {
        config.idle = one_number(directive);
    } else {
        die("unknown directive", directive);
    }
}

static void read_config(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;

    if (file == NULL) {
        die("cannot read", path);
    }
    while (getline(&line, &room, file) >= 0) {
        const char *directive = strtok(line, " \n");

        if (directive != NULL) {
            read_directive(directive);
        }
    }
    free(line);
    (void)fclose(file);
    if (config.report == NULL || (config.begin == 0) != (config.end == 0)) {
        die("report is needed, and begin and end or none of them, in", path);
    }
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    pthread_t thread;

    (void)info;
    if (argc != 1 || strncmp(argv[0], "config=", 7) != 0) {
        fprintf(stderr, "watch plugin: config=FILE is needed\n");
        return -1;
    }
    read_config(argv[0] + 7);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_report, NULL);
    if (pthread_create(&thread, NULL, guard, NULL) != 0 || pthread_detach(thread) != 0) {
        die("cannot start a thread", "");
    }
    return 0;
}
