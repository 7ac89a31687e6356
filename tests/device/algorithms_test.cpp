// Autotuning of algorithms: timed candidates, the choice, and the table.
#include "core/algorithms.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/kernels/conv.h"
#include "core/kernels/matmul.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"

using namespace tandem;
using namespace tandem::test;
using Catch::Contains;

namespace {

// The libraries' algorithms and what they take, as at first when this goes.
struct Timing {
  explicit Timing(const Emulator& emulated, int algorithms = 1) : emulated(emulated) {
    emulated.set_algorithms(algorithms);
  }
  ~Timing() {
    emulated.set_seconds(nullptr, 0.0, 0.0);
    emulated.set_compiled_algorithm(nullptr);
    emulated.set_algorithms(1);
  }
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  Timing& takes(const char* part, double seconds) { return takes(part, seconds, seconds); }
  Timing& takes(const char* part, double seconds, double cold) {
    emulated.set_seconds(part, seconds, cold);
    return *this;
  }

  const Emulator& emulated;
};

// Lines of the table by what they begin with and hold.
std::vector<std::pair<std::string, AlgorithmTable::Choice>> lines(const std::string& op,
                                                                  const std::string& part) {
  std::vector<std::pair<std::string, AlgorithmTable::Choice>> found;
  for (const auto& line : read_algorithms(backend_under_test().tuning_cache()).choices)
    if (line.first.starts_with(op) && line.first.find(part) != std::string::npos) found.push_back(line);
  return found;
}

AlgorithmTable::Choice line(const std::string& op, const std::string& part) {
  const auto found = lines(op, part);
  CAPTURE(op, part);
  REQUIRE(found.size() == 1);
  return found.front().second;
}

double seconds(const AlgorithmTable::Choice& choice, const std::string& name) {
  const auto found = std::ranges::find(choice.milliseconds, name, &std::pair<std::string, float>::first);
  CAPTURE(name);
  REQUIRE(found != choice.milliseconds.end());
  return found->second / 1e3;
}

Tensor zeros(const Shape& shape, DType dtype) {
  return Tensor::zeros(shape, {.dtype = dtype, .device = test_device()});
}

// Multiples of 1/8: products and sums of few of them are exact in f32.
Tensor eighths(const Shape& shape, DType dtype, std::uint64_t seed) {
  std::vector<double> values = random_values(shape.numel(), seed, -8.0, 9.0);
  for (double& value : values) value = std::floor(value) / 8.0;
  return tensor_of(values, shape, dtype);
}

// c ← a·b, or added to 1; how many kernels that took.
std::uint64_t multiply(const Emulator& emulated, const Shape& a, const Shape& b, bool accumulate = false) {
  Backend& backend = backend_under_test();
  const Tensor x = random_tensor(a, DType::f32, 1), y = random_tensor(b, DType::f32, 2);
  const Tensor c = Tensor::full({a[0], b[1]}, 1.0, {.device = test_device()});
  const std::uint64_t before = emulated.counts().launches;
  backend.matmul().matmul(x, y, {}, c, {.accumulate = accumulate});
  const std::uint64_t launches = emulated.counts().launches - before;
  const auto got = c.to_vector<double>(), left = x.to_vector<double>(), right = y.to_vector<double>();
  for (Index i = 0; i < a[0]; ++i) {
    for (Index j = 0; j < b[1]; ++j) {
      double expected = accumulate ? 1.0 : 0.0;
      for (Index k = 0; k < a[1]; ++k)
        expected +=
            left[static_cast<std::size_t>(i * a[1] + k)] * right[static_cast<std::size_t>(k * b[1] + j)];
      REQUIRE(got[static_cast<std::size_t>(i * b[1] + j)] == Approx(expected).margin(1e-5));
    }
  }
  return launches;
}

}  // namespace

TEST_CASE("a product's algorithms are timed once, and the fastest is taken", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Timing timing(emulated, 3);
  timing.takes("emulated-1", 3).takes("emulated-2", 1).takes("emulated-3", 2);
  for (const bool accumulate : {false, true}) {
    INFO(accumulate);
    const RulesScope timed(kTimed);
    const Shape a{5, accumulate ? 31 : 29}, b{a[1], 7};
    CHECK(multiply(emulated, a, b, accumulate) > 10);
    CHECK(multiply(emulated, a, b, accumulate) == 1);
    CHECK(multiply(emulated, a, b, !accumulate) == 1);
    const auto choice = line("matmul: ", fmt::format("[5,{}]", a[1]));
    CHECK_THAT(choice.name, Contains("emulated-2"));
    CHECK(seconds(choice, "first") == Approx(3).margin(0.5));
    CHECK(seconds(choice, "chosen") == Approx(1).margin(0.5));
  }
}

TEST_CASE("a product's first algorithm is taken where timing may not decide", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Timing timing(emulated, 3);
  const Shape a{5, 33}, b{33, 7};
  for (const ComputeRules& rules : {ComputeRules{.allow_tf32 = false, .deterministic = true},
                                    ComputeRules{.allow_tf32 = false, .autotune = false}}) {
    const RulesScope untimed(rules);
    CHECK(multiply(emulated, a, b) == 1);
  }
  CHECK(lines("matmul: ", "[5,33]").empty());
}

TEST_CASE("products in the table are not timed again", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const Timing timing(emulated, 3);
  const RulesScope timed(kTimed);
  multiply(emulated, {5, 34}, {34, 7});
  AlgorithmTable table = read_algorithms(backend_under_test().tuning_cache());
  const std::string known = lines("matmul: ", "[5,34]").front().first;
  std::string other = known;
  for (std::size_t at; (at = other.find("34")) != std::string::npos;) other.replace(at, 2, "35");
  table.choices = {{other, {.name = "emulated-3", .milliseconds = {}}}};
  AlgorithmTable foreign = table;
  foreign.library = "another";
  CHECK_FALSE(backend_under_test().adopt_tuning_cache(to_text(foreign)));
  CHECK(backend_under_test().adopt_tuning_cache(to_text(table)));
  CHECK(multiply(emulated, {5, 35}, {35, 7}) == 1);
  CHECK(line("matmul: ", "[5,35]").name == "emulated-3");
}

TEST_CASE("operands that fit the L2 cache are timed without it", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Timing timing(emulated, 2);
  timing.takes("emulated-1", 1, 5).takes("emulated-2", 2);
  const RulesScope timed(kTimed);
  multiply(emulated, {6, 40}, {40, 8});
  CHECK_THAT(line("matmul: ", "[6,40]").name, Contains("emulated-2"));
  multiply(emulated, {2, 60000}, {60000, 3});  // 1.2 MB
  CHECK_THAT(line("matmul: ", "[2,60000]").name, Contains("emulated-1"));
  Backend& backend = backend_under_test();
  const Tensor filter = random_tensor({3, 3, 3, 5}, DType::f32, 2);
  for (const Index extent : {9, 250}) {
    const Tensor x = random_tensor({1, extent, extent, 5}, DType::f32, 1);
    backend.conv().conv2d(x, filter, {}, zeros({1, extent - 2, extent - 2, 3}, DType::f32), {});
    CHECK_THAT(line("conv2d: ", fmt::format("x [1,{0},{0},5]", extent)).name,
               Contains(extent == 9 ? "emulated-2" : "emulated-1"));
  }
}

TEST_CASE("ready-made plans are tried before those that are compiled for the shape", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Timing timing(emulated, 60);  // more than are tried
  timing.takes("conv2d", 10).takes("emulated-2", -5);
  const RulesScope timed(kTimed);
  const Tensor filter = random_tensor({4, 3, 3, 7}, DType::f32, 2);
  for (const bool compiled : {false, true}) {
    emulated.set_compiled_algorithm(compiled ? "emulated-2" : nullptr);
    const Index extent = compiled ? 9 : 8;
    const Tensor x = random_tensor({1, extent, extent, 7}, DType::f32, 1);
    backend_under_test().conv().conv2d(x, filter, {}, zeros({1, extent - 2, extent - 2, 4}, DType::f32), {});
    const std::string name = line("conv2d: ", fmt::format("x [1,{0},{0},7]", extent)).name;
    CHECK((name == "f32: emulated-2") == !compiled);
  }
}

TEST_CASE("a convolution that is a product is computed by whichever is faster", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Backend& backend = backend_under_test();
  for (const bool product : {true, false}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(product, name_of(dtype));
      Timing timing(emulated);
      timing.takes("conv2d", product ? 3 : 1).takes("matmul", 2);
      const RulesScope timed(kTimed);
      const Index channels = product ? 6 : 10;
      const Tensor x = random_tensor({2, 5, 4, channels}, dtype, 1),
                   filter = random_tensor({12, 1, 1, channels}, dtype, 2);
      const Tensor y = zeros({2, 5, 4, 12}, dtype), dx = zeros(x.shape(), dtype);
      const auto run = [&] {
        const std::uint64_t before = emulated.counts().launches;
        backend.conv().conv2d(x, filter, {}, y, {});
        backend.conv().conv2d_input_gradient(y, filter, dx, {}, false);
        const std::uint64_t launches = emulated.counts().launches - before;
        return std::tuple{launches, y.to_vector<double>(), dx.to_vector<double>()};
      };
      CHECK(std::get<0>(run()) > 10);
      const auto [launches, forward, gradient] = run();
      CHECK(launches == 2);
      for (const char* op : {"conv2d: ", "conv2d_input_gradient: "}) {
        const auto choice = line(op, fmt::format("{0} → {0}, x [2,5,4,{1}]", name_of(dtype), channels));
        CHECK((choice.name.find("cuBLASLt") != std::string::npos) == product);
        CHECK(seconds(choice, "cuBLASLt") == Approx(2).margin(0.5));
        CHECK(seconds(choice, "cuDNN") == Approx(product ? 3 : 1).margin(0.5));
      }
      const RulesScope untimed({.allow_tf32 = false, .deterministic = true});
      const auto [by_rule, expected, expected_gradient] = run();
      CHECK(by_rule == 2);
      CHECK(forward == expected);
      CHECK(gradient == expected_gradient);
    }
  }
}

TEST_CASE("a gradient that is a product is added where it lands, without a trial", "[device][algorithms]") {
  const Emulator emulated = emulator();
  Backend& backend = backend_under_test();
  for (const auto& [dtype, result] : {std::pair{DType::f32, DType::f32},
                                      {DType::f16, DType::f16},
                                      {DType::bf16, DType::bf16},
                                      {DType::bf16, DType::f32}}) {
    CAPTURE(name_of(dtype), name_of(result));
    const Tensor dy = eighths({2, 4, 3, 8}, dtype, 1), filter = eighths({8, 1, 1, 16}, dtype, 2);
    const Tensor dx = eighths({2, 4, 3, 16}, result, 3);
    const auto before = dx.to_vector<double>(), left = dy.to_vector<double>(),
               right = filter.to_vector<double>();
    std::vector<double> expected = before;
    for (std::size_t p = 0; p < 24; ++p) {
      for (std::size_t c = 0; c < 16; ++c) {
        for (std::size_t o = 0; o < 8; ++o) expected[p * 16 + c] += left[p * 8 + o] * right[o * 16 + c];
      }
    }
    const std::uint64_t launches = emulated ? emulated.counts().launches : 0;
    const RulesScope timed(kTimed);
    backend.conv().conv2d_input_gradient(dy, filter, dx, {}, true);
    if (emulated) CHECK(emulated.counts().launches - launches == 1);
    CHECK(dx.to_vector<double>() == tensor_of(expected, dx.shape(), result).to_vector<double>());
  }
}

TEST_CASE("a filter gradient is FP32 by the faster way, and the table has all times",
          "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  Backend& backend = backend_under_test();
  struct Case {
    double
        direct;  // seconds of the plan that writes f32; the rounding one takes 1, the widened 2 and two casts
    bool widens, measured;
  };
  Index extent = 6;
  for (const auto& [direct, widens, measured] :
       {Case{1.4, false, false}, {3.0, false, true}, {9.0, true, true}}) {
    CAPTURE(direct);
    Timing timing(emulated);
    timing.takes("conv2d_filter_gradient: bf16 → f32", direct)
        .takes("conv2d_filter_gradient: bf16 → bf16", 1)
        .takes("conv2d_filter_gradient: f32 → f32", 2);
    const RulesScope timed(kTimed);
    const Tensor x = eighths({2, ++extent, 6, 8}, DType::bf16, 1);
    const Tensor dy = eighths({2, extent - 2, 4, 16}, DType::bf16, 2);
    const Tensor dfilter = zeros({16, 3, 3, 8}, DType::f32);
    const auto run = [&] {
      const std::uint64_t before = emulated.counts().launches;
      backend.conv().conv2d_filter_gradient(x, dy, dfilter, {}, false);
      return emulated.counts().launches - before;
    };
    run();
    const auto first = dfilter.to_vector<double>();
    CHECK(run() == (widens ? 3 : 1));
    CHECK(dfilter.to_vector<double>() == first);
    const auto choice = line("conv2d_filter_gradient: bf16 → f32", fmt::format("x [2,{},6,8]", extent));
    CHECK(choice.name.starts_with(widens ? "bf16: " : "f32: "));
    CHECK(seconds(choice, "f32") == Approx(direct).margin(0.5));
    CHECK(seconds(choice, "rounded") == Approx(1).margin(0.5));
    if (measured) CHECK(seconds(choice, "widened") == Approx(4).margin(0.5));
    CHECK((choice.milliseconds.back().first == "widened") == measured);
  }
}

TEST_CASE("a trial of an addition brings next to nothing to the host", "[device][algorithms]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  const RulesScope timed(kTimed);
  const Tensor dy = random_tensor({2, 7, 6, 24}, DType::f16, 1),
               filter = random_tensor({24, 3, 3, 8}, DType::f16, 2);
  const Tensor dx = random_tensor({2, 9, 8, 8}, DType::f16, 3);
  const auto before = emulated.counts();
  backend_under_test().conv().conv2d_input_gradient(dy, filter, dx, {}, true);
  CHECK(emulated.counts().adding_convolutions > before.adding_convolutions);
  CHECK(emulated.counts().bytes_to_host - before.bytes_to_host <= 64);
}
