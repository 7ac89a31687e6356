// No kernel of oneDNN, and none of Tandem's with workspace, writes beyond its memory: many shapes with guards
// around each buffer and scratchpad, at each instruction level that oneDNN supports here. A process reads its
// level once, so each level has its own process.
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <random>

#include "core/cpu/cpu_features.h"
#include "core/cpu/onednn.h"
#include "core/guard.h"
#include "core/kernels/conv.h"
#include "tests/core/kernel_testing.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"

using namespace tandem;
using cpu::onednn::Convolution;
using cpu::onednn::Kernels;
using cpu::onednn::Matmul;
using cpu::onednn::Pass;
using cpu::onednn::Primitive;

namespace {

// Of the sweep's own: the same cases on every machine.
class Choice {
 public:
  explicit Choice(unsigned seed) : generator_(seed) {}
  Index below(Index count) { return static_cast<Index>(generator_() % static_cast<unsigned>(count)); }
  Index between(Index first, Index last) { return first + below(last - first + 1); }
  bool once_in(Index count) { return below(count) == 0; }
  template <std::size_t n>
  Index among(const std::array<Index, n>& values) {
    return values[static_cast<std::size_t>(below(n))];
  }

 private:
  std::mt19937 generator_;
};

struct Case {
  Convolution problem;
  int threads;
};

// Every number of channels with every stride and kernel; all else is drawn.
Case draw(Index channels, Index stride, Index kernel, Choice& choice) {
  Convolution p{};
  p.batch = choice.between(1, 3);
  p.channels = channels;
  p.out_channels = choice.among<8>({1, 3, 8, 16, 17, 24, 32, 40});
  p.options.groups = 1;
  if (choice.once_in(4)) {  // groups that divide the channels
    Index groups = choice.between(1, channels);
    while (channels % groups != 0) --groups;
    p.options.groups = groups;
    p.out_channels = groups * choice.between(1, 2);
  }
  p.kernel_height = kernel;
  p.kernel_width = choice.once_in(4) ? 1 : kernel;
  p.options.stride = {choice.once_in(4) ? 1 : stride, stride};
  const Index dilation = kernel > 1 && choice.once_in(3) ? 2 : 1;
  p.options.dilation = {dilation, dilation};
  p.options.padding = {choice.between(0, p.kernel_height / 2), choice.between(0, p.kernel_width / 2)};
  const bool fits = choice.below(3) > 0;  // the stride divides the image
  const auto extent = [&](Index k) {
    return std::max(fits ? stride * choice.between(2, 7) : choice.between(4, 17), dilation * (k - 1) + 1);
  };
  p.height = extent(p.kernel_height);
  p.width = extent(p.kernel_width);
  const auto out = [&](int axis, Index size, Index k) {
    return (size + 2 * p.options.padding[axis] - dilation * (k - 1) - 1) / p.options.stride[axis] + 1;
  };
  p.out_height = out(0, p.height, p.kernel_height);
  p.out_width = out(1, p.width, p.kernel_width);
  return {p, static_cast<int>(choice.between(1, 2))};
}

constexpr int kDraws = 2;

template <class Visit>
void for_each_case(Visit&& visit) {
  Choice choice(1);
  for (Index kernel : {1, 2, 3, 5})
    for (Index stride : {1, 2, 3})
      for (Index channels = 1; channels <= 40; ++channels)
        // A stride and a kernel of 1×1: pixels are gathered into scratchpads there.
        for (int i = 0; i < (kernel == 1 && stride > 1 ? 3 : 1) * kDraws; ++i)
          visit(draw(channels, stride, kernel, choice));
}

// Runs it with all its arguments in guarded memory; throws for what it wrote elsewhere.
void run(const Primitive& primitive, int arguments) {
  std::vector<Tensor> memory;
  for (int i = 0; i < arguments; ++i) {
    memory.push_back(Tensor::empty({static_cast<Index>(primitive.bytes(i))}, {.dtype = DType::u8}));
    std::memset(memory.back().raw(), 0, primitive.bytes(i));
  }
  if (arguments == 4) {
    primitive.run({memory[0].raw(), memory[1].raw(), memory[2].raw(), memory[3].raw()});
  } else {
    primitive.run({memory[0].raw(), memory[1].raw(), memory[2].raw()});
  }
}

// Cast to the dtype of the operands, and as f64.
struct Operand {
  Operand(const Shape& shape, DType dtype, unsigned seed)
      : tensor(normal_tensor(shape, dtype, seed)), wide(Tensor::empty(shape, {.dtype = DType::f64})) {
    cpu::backend().cast(tensor, wide, false);
  }
  Tensor tensor, wide;
};

// A gradient of few elements may be a sum that cancels.
void check_close(const Tensor& got, const Tensor& expected, DType operands, DType result) {
  const double limit = tolerance_of_sums(operands, result) * (expected.numel() < 1000 ? 100 : 1);
  CHECK(normalised_error(got.to_vector<double>(), expected.to_vector<double>()) <= limit);
}

// All passes of Tandem's convolution, whichever kernels it takes, against products in f64.
void check_convolution(const Convolution& p, DType dtype) {
  Backend& backend = cpu::backend();
  const Operand x({p.batch, p.height, p.width, p.channels}, dtype, 1);
  const Operand filter({p.out_channels, p.kernel_height, p.kernel_width, p.channels / p.options.groups},
                       dtype, 2);
  const Operand dy({p.batch, p.out_height, p.out_width, p.out_channels}, dtype, 3);
  const auto of = [](const Operand& like, DType type) {
    return Tensor::empty(like.tensor.shape(), {.dtype = type});
  };
  const Tensor y = of(dy, dtype), wide_y = of(dy, DType::f64);
  backend.conv().conv2d(x.tensor, filter.tensor, {}, y, p.options);
  backend.conv().conv2d(x.wide, filter.wide, {}, wide_y, p.options);
  check_close(y, wide_y, dtype, dtype);
  const Tensor dx = of(x, dtype), wide_dx = of(x, DType::f64);
  backend.conv().conv2d_input_gradient(dy.tensor, filter.tensor, dx, p.options, false);
  backend.conv().conv2d_input_gradient(dy.wide, filter.wide, wide_dx, p.options, false);
  check_close(dx, wide_dx, dtype, dtype);
  const Tensor df = of(filter, DType::f32), wide_df = of(filter, DType::f64);
  backend.conv().conv2d_filter_gradient(x.tensor, dy.tensor, df, p.options, false);
  backend.conv().conv2d_filter_gradient(x.wide, dy.wide, wide_df, p.options, false);
  check_close(df, wide_df, dtype, DType::f32);
  CHECK_NOTHROW(guard::check("sweep"));
}

std::string label(const Case& c) { return fmt::format("{}, {} threads", to_string(c.problem), c.threads); }

}  // namespace

TEST_CASE("oneDNN's convolutions stay within their memory", "[.level]") {
  int ran = 0;
  for_each_case([&](const Case& c) {
    INFO(label(c));
    for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::filter_gradient}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        if (dtype == DType::bf16 && !cpu::onednn::multiplies_bf16()) continue;
        Convolution p = c.problem;
        p.dtype = dtype;
        p.result = pass == Pass::filter_gradient ? DType::f32 : dtype;
        p.bias = pass == Pass::forward && ran % 2 == 0;
        REQUIRE(expressible(p));
        const auto primitive = convolution(pass, p);
        CHECK_NOTHROW(run(*primitive, p.bias ? 4 : 3));
        ++ran;
      }
    }
  });
  CHECK(ran >= 3 * 640 * kDraws);
}

TEST_CASE("Tandem's convolutions stay within their memory, and are right", "[.level]") {
  int number = 0;
  for_each_case([&](const Case& c) {
    if (++number % 3 != 0 && c.problem.kernel_height * c.problem.kernel_width > 1) return;
    INFO(label(c));
    const test::OneThread restored;
    cpu::set_threads(c.threads);
    constexpr std::array dtypes = {DType::f32, DType::bf16, DType::f16};
    check_convolution(c.problem, dtypes[static_cast<std::size_t>(number / 3 % 3)]);
  });
}

TEST_CASE("matrix products and reorders stay within their memory", "[.level]") {
  Choice choice(2);
  for (int i = 0; i < 400; ++i) {
    Matmul p{};
    p.batch = choice.once_in(3) ? choice.between(2, 3) : 1;
    p.m = choice.between(1, 80);
    p.n = choice.between(1, 80);
    p.k = choice.between(1, 130);
    p.transpose_a = choice.once_in(2);
    p.transpose_b = choice.once_in(2);
    p.lda = p.transpose_a ? p.m : p.k;
    p.ldb = p.transpose_b ? p.k : p.n;
    p.ldc = p.n;
    p.stride_a = p.batch > 1 ? p.m * p.k : 0;
    p.stride_b = p.batch > 1 && choice.once_in(2) ? p.k * p.n : 0;
    p.bias = choice.once_in(3);
    p.accumulate = choice.once_in(3);
    if (cpu::onednn::multiplies_bf16() && choice.once_in(2)) p.dtype = DType::bf16;
    p.result = p.dtype == DType::bf16 && !p.accumulate && choice.once_in(2) ? DType::bf16 : DType::f32;
    p.packed_b = p.batch == 1 && !p.transpose_b && choice.once_in(3);
    INFO(to_string(p));
    const auto primitive = cpu::onednn::matmul(p);
    CHECK_NOTHROW(run(*primitive, p.bias ? 4 : 3));
    if (!p.packed_b) continue;
    const auto* wanted = primitive->layout(1);
    const Tensor plain = normal_tensor({p.k, p.n}, p.dtype, 1),
                 packed = Tensor::empty({static_cast<Index>(wanted->bytes)}, {.dtype = DType::u8});
    CHECK_NOTHROW(cpu::onednn::reorder(plain_b(p), wanted)->run({plain.raw(), packed.raw()}));
  }
}

// The control: a kernel that is known to write beyond its scratchpad is found, with guards and without.
TEST_CASE("a kernel that overruns its scratchpad is found", "[.control]") {
  const Convolution p{.batch = 1,
                      .height = 112,
                      .width = 112,
                      .channels = 2,
                      .out_height = 56,
                      .out_width = 56,
                      .out_channels = 8,
                      .kernel_height = 1,
                      .kernel_width = 1,
                      .options = {.stride = {2, 2}}};
  for (const bool on : {true, false}) {
    const bool before = guard::turn(on);
    bool found = false;
    const auto primitive = convolution(Pass::filter_gradient, p, Kernels::all);
    try {
      run(*primitive, 3);
    } catch (const VendorError& error) {
      found = true;
      CHECK_THAT(error.what(), Catch::Contains("[conv2d_filter_gradient: f32 x [1,112,112,2]") &&
                                   Catch::Contains("oneDNN's " + primitive->implementation() + " wrote") &&
                                   Catch::Contains("bytes behind its scratchpad of"));
      CHECK_FAILS(InternalError, guard::check("memory"), "(workspace) were overwritten");
      guard::forget();
    }
    CHECK_NOTHROW(run(*convolution(Pass::filter_gradient, p), 3));
    guard::turn(before);
    const dnnl_version_t* version = dnnl_version();
    if (version->major == 3 && version->minor == 2) CHECK(found);
  }
}

namespace {

// The levels that bring other kernels for f32 or bf16, as far as this CPU goes.
std::vector<std::string> levels() {
  const cpu::CpuFeatures& f = cpu::cpu_features();
  std::vector<std::string> names{"SSE41"};
  if (f.avx) names.emplace_back("AVX");
  if (f.avx2 && f.fma) names.emplace_back("AVX2");
  if (f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl) {
    names.emplace_back("AVX512_CORE");
    if (f.avx512_bf16) names.emplace_back("AVX512_CORE_BF16");
    if (f.avx512_fp16) names.emplace_back("AVX512_CORE_FP16");
    if (f.amx_bf16) names.emplace_back("AVX512_CORE_AMX");
  }
  return names;
}

// This program at a level, with the tests of a tag.
void check_at(const std::string& level, const std::string& tag) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format("ONEDNN_MAX_CPU_ISA={} '{}' '{}' 2>&1", level, self, tag);
  FILE* child = popen(command.c_str(), "r");
  REQUIRE(child);
  std::string output;
  for (std::array<char, 4096> part{}; const std::size_t got = std::fread(part.data(), 1, part.size(), child);)
    output.append(part.data(), got);
  const int status = pclose(child);
  INFO(level << ": " << output.substr(0, 4000));
  CHECK(status == 0);
  CHECK(output.find("All tests passed") != std::string::npos);
}

}  // namespace

TEST_CASE("kernels write only their memory at each instruction level", "[guard]") {
  for (const std::string& level : levels()) check_at(level, "[level]");
}

TEST_CASE("the sweep's guards find a kernel that does", "[guard]") {
  for (const std::string& level : levels()) {
    if (level != "SSE41" && level != "AVX") check_at(level, "[control]");
  }
}
