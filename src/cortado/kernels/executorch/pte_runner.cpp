/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a method of a .pte, "forward" if none is named, on this machine's ExecuTorch runtime, as firmware would: the
 * planned arena and nothing else. The temp allocator is empty unless another size is asked for. The operators ask of each
 * call what Arm's kernels ask on the core that the file was compiled for, and give what they give there.
 *
 *     pte_runner MODEL.pte INPUTS OUTPUTS SAMPLES [TEMP_BYTES [METHOD_BYTES [IMITATE [METHOD]]]]
 *
 * The method allocator has METHOD_BYTES, or as much as the runtime asks for if that is 0. With 0 for IMITATE, operators
 * have the reference's bits where Arm's have others.
 *
 * INPUTS holds, for each sample, the bytes of each input, without gaps; OUTPUTS gets the same of each output. The exit
 * code is 0, or 1 with the reason on the last line of standard error; what the runtime logs comes before it.
 */
#include "arm_limits.h"
#include "pte_target.h"

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::BufferDataLoader;
using executorch::extension::MallocMemoryAllocator;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Span;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

constexpr size_t alignment = 16;
constexpr int64_t address_space = int64_t(1) << 32; /* of a Cortex-M */

[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::fflush(stdout);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    va_end(arguments);
    std::exit(1);
}

template <class T>
T checked(executorch::runtime::Result<T> result, const char *doing)
{
    if (!result.ok()) {
        fail("%s: %s", doing, executorch::runtime::to_string(result.error()));
    }
    return std::move(result.get());
}

void check(Error error, const char *doing)
{
    if (error != Error::Ok) {
        fail("%s: %s", doing, executorch::runtime::to_string(error));
    }
}

/* A block of memory whose first byte is aligned and whose last byte is the last that may be touched. */
struct Block {
    explicit Block(size_t bytes)
        : data(static_cast<uint8_t *>(std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment))),
          size(bytes)
    {
        if (data == nullptr) {
            fail("no memory for %zu bytes", bytes);
        }
        std::memset(data, 0xA5, size); /* what a program reads without having written it should show */
    }
    Block(Block &&other) noexcept : data(other.data), size(other.size) { other.data = nullptr; }
    ~Block() { std::free(data); }
    Span<uint8_t> span() const { return {data, size}; }

    uint8_t *data;
    size_t size;
};

struct File {
    File(const char *path, const char *mode) : handle(std::fopen(path, mode))
    {
        if (handle == nullptr) {
            fail("can't open %s", path);
        }
    }
    ~File() { std::fclose(handle); }
    std::FILE *handle;
};

Block read_file(const char *path)
{
    File file(path, "rb");
    std::fseek(file.handle, 0, SEEK_END);
    const long size = std::ftell(file.handle);
    std::rewind(file.handle);
    Block block(size < 0 ? 0 : static_cast<size_t>(size));
    if (std::fread(block.data, 1, block.size, file.handle) != block.size) {
        fail("can't read %s", path);
    }
    return block;
}

/* The file says its target, unless Cortado did not write it. */
void tell_target(const Block &file)
{
    char target[CORTADO_PTE_TARGET_SIZE];
    if (cortado_pte_target(file.data, file.size, target, sizeof target) == CORTADO_PTE_OK &&
        cortado_cortex_m_target(target) != 0) {
        fail("the program was compiled for %s, which is no target that is known here", target);
    }
}

std::vector<Block> planned_memory(const MethodMeta &meta)
{
    std::vector<Block> memory;
    for (size_t i = 0; i < meta.num_memory_planned_buffers(); i++) {
        const int64_t bytes = checked(meta.memory_planned_buffer_size(i), "reading the plan");
        if (bytes < 0 || bytes >= address_space) {
            fail("the program asks for %" PRId64 " bytes of memory", bytes);
        }
        memory.emplace_back(static_cast<size_t>(bytes));
    }
    return memory;
}

/* An input tensor and the memory behind it. */
struct Input {
    explicit Input(const TensorInfo &info)
        : sizes(info.sizes().begin(), info.sizes().end()), order(info.dim_order().begin(), info.dim_order().end()),
          strides(sizes.size()), block(info.nbytes()), type(info.scalar_type())
    {
        int32_t step = 1;
        for (size_t i = order.size(); i-- > 0;) {
            if (order[i] >= sizes.size()) {
                fail("an input's dimensions are in an impossible order");
            }
            strides[order[i]] = step;
            step *= sizes[order[i]];
        }
        impl = std::make_unique<TensorImpl>(type, static_cast<ssize_t>(sizes.size()), sizes.data(), block.data,
                                            order.data(), strides.data());
    }

    std::vector<TensorImpl::SizesType> sizes;
    std::vector<TensorImpl::DimOrderType> order;
    std::vector<TensorImpl::StridesType> strides;
    Block block;
    executorch::aten::ScalarType type;
    std::unique_ptr<TensorImpl> impl;
};

std::vector<Input> make_inputs(const MethodMeta &meta)
{
    std::vector<Input> inputs;
    inputs.reserve(meta.num_inputs());
    for (size_t i = 0; i < meta.num_inputs(); i++) {
        if (checked(meta.input_tag(i), "reading the inputs") != Tag::Tensor) {
            fail("input %zu is not a tensor", i);
        }
        inputs.emplace_back(checked(meta.input_tensor_meta(i), "reading the inputs"));
    }
    return inputs;
}

void read_inputs(std::FILE *from, const std::vector<Input> &inputs)
{
    for (const Input &input : inputs) {
        if (std::fread(input.block.data, 1, input.block.size, from) != input.block.size) {
            fail("the inputs end too early");
        }
    }
}

void write_outputs(std::FILE *to, const Method &method)
{
    for (size_t i = 0; i < method.outputs_size(); i++) {
        const EValue &value = method.get_output(i);
        if (!value.isTensor()) {
            fail("output %zu is not a tensor", i);
        }
        const Tensor &tensor = value.toTensor();
        if (std::fwrite(tensor.const_data_ptr(), 1, tensor.nbytes(), to) != tensor.nbytes()) {
            fail("can't write the outputs");
        }
    }
}

void run(Method &method, const MethodMeta &meta, std::FILE *from, std::FILE *to, long samples)
{
    const std::vector<Input> inputs = make_inputs(meta);
    for (long sample = 0; sample < samples; sample++) {
        read_inputs(from, inputs);
        for (size_t i = 0; i < inputs.size(); i++) {
            check(method.set_input(EValue(Tensor(inputs[i].impl.get())), i), "setting an input");
        }
        check(method.execute(), "running the method");
        write_outputs(to, method);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 9) {
        fail("usage: pte_runner MODEL.pte INPUTS OUTPUTS SAMPLES [TEMP_BYTES [METHOD_BYTES [IMITATE [METHOD]]]]");
    }
    const auto number = [&](int position) {
        return argc > position ? std::strtoul(argv[position], nullptr, 10) : 0;
    };
    executorch::runtime::runtime_init();
    const Block file = read_file(argv[1]);
    tell_target(file);
    cortado_cortex_m_imitate_arm(argc <= 7 || number(7) != 0);
    BufferDataLoader loader(file.data, file.size);
    Program program = checked(Program::load(&loader, Program::Verification::InternalConsistency), "loading the program");
    const char *name = argc > 8 ? argv[8] : "forward";
    const MethodMeta meta = checked(program.method_meta(name), "looking for the method");
    const std::vector<Block> memory = planned_memory(meta);
    std::vector<Span<uint8_t>> spans;
    for (const Block &block : memory) {
        spans.push_back(block.span());
    }
    HierarchicalAllocator planned({spans.data(), spans.size()});
    MallocMemoryAllocator all_it_wants;
    const Block loaded(number(6));
    MemoryAllocator limited(static_cast<uint32_t>(loaded.size), loaded.data);
    MemoryAllocator &method_allocator = loaded.size > 0 ? limited : all_it_wants;
    const Block temporary(number(5));
    MemoryAllocator temp_allocator(static_cast<uint32_t>(temporary.size), temporary.data);
    /* Without a temp allocator the runtime would make one that calls malloc; an empty one refuses. */
    MemoryManager manager(&method_allocator, &planned, &temp_allocator);
    Method method = checked(program.load_method(name, &manager), "loading the method");
    File from(argv[2], "rb"), to(argv[3], "wb");
    run(method, meta, from.handle, to.handle, std::strtol(argv[4], nullptr, 10));
    return 0;
}
