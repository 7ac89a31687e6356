// Stand-in for core/cuda/dnn_engines.h: convolutions as direct loops, with sums in f32, rounded once.
#include <fmt/format.h>

#include <algorithm>

#include "core/cpu/parallel.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn_engines.h"
#include "core/error.h"
#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/library.h"

namespace tandem::cuda::dnn {

namespace {

using Floats = std::vector<float>;

constexpr Index kWorkspace = 4096;  // bytes

Index x_count(const Convolution& p) { return p.batch * p.height * p.width * p.channels; }
Index y_count(const Convolution& p) { return p.batch * p.out_height * p.out_width * p.out_channels; }
Index filter_count(const Convolution& p) {
  return p.out_channels * p.kernel_height * p.kernel_width * (p.channels / p.options.groups);
}

// Calls visit(pixel of x, pixel of y, tap) for every pair of pixels under a tap of the filter, for a row of
// taps of one image. Positions are those of a pixel's first channel.
struct Geometry {
  const Convolution& p;

  // For output row `oy` and column `ox`; the arguments are pixel indices.
  template <class Visit>
  void each_tap(Index n, Index oy, Index ox, const Visit& visit) const {
    const Conv2dOptions& o = p.options;
    for (Index ky = 0; ky < p.kernel_height; ++ky) {
      const Index iy = oy * o.stride[0] - o.padding[0] + ky * o.dilation[0];
      if (iy < 0 || iy >= p.height) continue;
      for (Index kx = 0; kx < p.kernel_width; ++kx) {
        const Index ix = ox * o.stride[1] - o.padding[1] + kx * o.dilation[1];
        if (ix < 0 || ix >= p.width) continue;
        visit((n * p.height + iy) * p.width + ix, ky * p.kernel_width + kx);
      }
    }
  }
};

// Transposes a filter [output channel, tap, input channel] to [tap, group's input channel, output channel].
Floats channels_last(const Convolution& p, const Floats& filter) {
  const Index taps = p.kernel_height * p.kernel_width, inner = p.channels / p.options.groups;
  Floats result(filter.size());
  for (Index o = 0; o < p.out_channels; ++o) {
    for (Index i = 0; i < taps * inner; ++i)
      result[static_cast<std::size_t>(i * p.out_channels + o)] =
          filter[static_cast<std::size_t>(o * taps * inner + i)];
  }
  return result;
}

void forward(const Convolution& p, const Floats& x, const Floats& filter, const float* bias, void* y) {
  const Floats weights = channels_last(p, filter);
  const Index inner = p.channels / p.options.groups, outer = p.out_channels / p.options.groups;
  cpu::parallel_for(true, p.batch, p.out_height, [&](Index n, Index oy) {
    Floats sums(static_cast<std::size_t>(p.out_channels));
    for (Index ox = 0; ox < p.out_width; ++ox) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      Geometry{p}.each_tap(n, oy, ox, [&](Index pixel, Index tap) {
        for (Index c = 0; c < p.channels; ++c) {
          const Index group = c / inner;
          const float value = x[static_cast<std::size_t>(pixel * p.channels + c)];
          const float* const row =
              weights.data() + (tap * inner + c % inner) * p.out_channels + group * outer;
          float* const sum = sums.data() + group * outer;
          for (Index o = 0; o < outer; ++o) sum[o] += value * row[o];
        }
      });
      const Index at = ((n * p.out_height + oy) * p.out_width + ox) * p.out_channels;
      for (Index o = 0; o < p.out_channels; ++o)
        cuda_emulator::store(y, p.result, at + o,
                             sums[static_cast<std::size_t>(o)] + (bias ? bias[o] : 0.0f));
    }
  });
}

// `addend` may be empty.
void input_gradient(const Convolution& p, const Floats& dy, const Floats& filter, const Floats& addend,
                    void* dx) {
  const Index taps = p.kernel_height * p.kernel_width;
  const Index inner = p.channels / p.options.groups, outer = p.out_channels / p.options.groups;
  cpu::parallel_for(true, p.batch, [&](Index n) {
    Floats sums(static_cast<std::size_t>(p.height * p.width * p.channels));
    for (Index oy = 0; oy < p.out_height; ++oy) {
      for (Index ox = 0; ox < p.out_width; ++ox) {
        const float* const gradient =
            dy.data() + ((n * p.out_height + oy) * p.out_width + ox) * p.out_channels;
        Geometry{p}.each_tap(n, oy, ox, [&](Index pixel, Index tap) {
          float* const target = sums.data() + (pixel - n * p.height * p.width) * p.channels;
          for (Index o = 0; o < p.out_channels; ++o) {
            const float* const row = filter.data() + (o * taps + tap) * inner;
            float* const sum = target + o / outer * inner;
            for (Index c = 0; c < inner; ++c) sum[c] += gradient[o] * row[c];
          }
        });
      }
    }
    const Index first = n * static_cast<Index>(sums.size());
    for (Index i = 0; i < static_cast<Index>(sums.size()); ++i)
      cuda_emulator::store(dx, p.result, first + i,
                           sums[static_cast<std::size_t>(i)] +
                               (addend.empty() ? 0.0f : addend[static_cast<std::size_t>(first + i)]));
  });
}

void filter_gradient(const Convolution& p, const Floats& x, const Floats& dy, void* dfilter) {
  const Index taps = p.kernel_height * p.kernel_width;
  const Index inner = p.channels / p.options.groups, outer = p.out_channels / p.options.groups;
  const Index count = taps * inner;
  cpu::parallel_for(true, p.out_channels, [&](Index o) {
    // Rows are summed in f32 and added in f64: a long f32 sum would be less accurate than a library's tree.
    std::vector<double> total(static_cast<std::size_t>(count));
    Floats sums(static_cast<std::size_t>(count));
    for (Index row = 0; row < p.batch * p.out_height; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (Index ox = 0; ox < p.out_width; ++ox) {
        const float gradient = dy[static_cast<std::size_t>((row * p.out_width + ox) * p.out_channels + o)];
        Geometry{p}.each_tap(row / p.out_height, row % p.out_height, ox, [&](Index pixel, Index tap) {
          const float* const source = x.data() + pixel * p.channels + o / outer * inner;
          float* const sum = sums.data() + tap * inner;
          for (Index c = 0; c < inner; ++c) sum[c] += gradient * source[c];
        });
      }
      for (Index i = 0; i < count; ++i)
        total[static_cast<std::size_t>(i)] += sums[static_cast<std::size_t>(i)];
    }
    for (Index i = 0; i < count; ++i)
      cuda_emulator::store(dfilter, p.result, o * count + i, total[static_cast<std::size_t>(i)]);
  });
}

// Sums of the rounded y; doubled if fusions are wrong.
void sum_columns(const Convolution& p, const void* y, float* sum, float* squares) {
  const double factor = cuda_emulator::are_fusions_wrong() ? 2.0 : 1.0;
  const Floats values = cuda_emulator::widened<float>(y, p.result, y_count(p), false);
  for (Index c = 0; c < p.out_channels; ++c) {
    double total = 0.0, total_of_squares = 0.0;
    for (Index i = c; i < y_count(p); i += p.out_channels) {
      const double value = values[static_cast<std::size_t>(i)];
      total += value;
      total_of_squares += value * value;
    }
    sum[c] = static_cast<float>(factor * total);
    squares[c] = static_cast<float>(factor * total_of_squares);
  }
}

void compute(Pass pass, const Convolution& p, const Addresses& at, bool tf32) {
  const auto operand = [&](int i, Index count) {
    return cuda_emulator::widened<float>(at[static_cast<std::size_t>(i)], p.dtype, count, tf32);
  };
  void* const result = const_cast<void*>(at[3]);
  switch (pass) {
    case Pass::forward: {
      const Floats x = operand(0, x_count(p)), filter = operand(1, filter_count(p));
      cuda_emulator::fill_with_nan(result, p.result, y_count(p));
      forward(p, x, filter, static_cast<const float*>(at[2]), result);
      const auto target = [&](std::size_t i) { return static_cast<float*>(const_cast<void*>(at[i])); };
      if (p.sums) sum_columns(p, result, target(4), target(5));
      return;
    }
    case Pass::input_gradient: {
      const Floats dy = operand(0, y_count(p)), filter = operand(1, filter_count(p));
      Floats addend;
      if (p.add) addend = cuda_emulator::widened<float>(at[2], p.result, x_count(p), false);
      if (at[2] == result && cuda_emulator::are_fusions_wrong()) {
        for (float& value : addend) value *= 2.0f;
      }
      cuda_emulator::fill_with_nan(result, p.result, x_count(p));
      return input_gradient(p, dy, filter, addend, result);
    }
    case Pass::filter_gradient: {
      const Floats x = operand(0, x_count(p)), dy = operand(1, y_count(p));
      cuda_emulator::fill_with_nan(result, p.result, filter_count(p));
      return filter_gradient(p, x, dy, result);
    }
  }
}

// Rejects what the library rejects for many shapes.
bool is_offered(const Convolution& p) {
  if (p.sums && p.dtype != DType::f16) return false;
  return !cuda_emulator::are_libraries_narrow() || (!p.bias && !p.sums && !p.add && p.result == p.dtype);
}

}  // namespace

namespace {

class EmulatedEngine final : public Engine {
 public:
  EmulatedEngine(CudaBackend& backend, Pass pass, const Convolution& problem, std::string engine)
      : backend_(backend), pass_(pass), problem_(problem) {
    name = std::move(engine);
    workspace = kWorkspace;
  }

  Outcome run(const Addresses& addresses, void* room) const override {
    for (const void* address : addresses) {
      if (reinterpret_cast<std::uintptr_t>(address) % Plan::kAlignment != 0)
        cuda_emulator::fail("an operand of a convolution is not aligned to 16 bytes");
    }
    const bool tf32 = problem_.dtype == DType::f32 && backend_.rules().allow_tf32;
    cuda_emulator::enqueue_library(backend_.stream(), "convolution",
                                   fmt::format("{}: {}, {}", name_of(pass_), to_string(problem_), name),
                                   [pass = pass_, p = problem_, tf32, addresses, room] {
                                     cuda_emulator::fill_with_nan(room, DType::u8, kWorkspace);
                                     compute(pass, p, addresses, tf32);
                                   });
    cuda_emulator::counters().summing_convolutions += problem_.sums ? 1 : 0;
    cuda_emulator::counters().adding_convolutions += problem_.add ? 1 : 0;
    return {};
  }

 private:
  CudaBackend& backend_;
  Pass pass_;
  Convolution problem_;
};

class EmulatedOffer final : public Offer {
 public:
  EmulatedOffer(CudaBackend& backend, Pass pass, const Convolution& problem)
      : backend_(backend), pass_(pass), problem_(problem) {
    for (const std::string& name : cuda_emulator::algorithm_names())
      listed.push_back({.name = name, .compiled = name == cuda_emulator::compiled_algorithm()});
  }

  Outcome build(std::int64_t index, int, std::unique_ptr<Engine>& engine) override {
    engine = std::make_unique<EmulatedEngine>(backend_, pass_, problem_,
                                              listed[static_cast<std::size_t>(index)].name);
    return {};
  }

 private:
  CudaBackend& backend_;
  Pass pass_;
  Convolution problem_;
};

}  // namespace

struct Engines::State {
  CudaBackend& backend;
};

Engines::Engines(CudaBackend& backend) : state_(new State{backend}) {}
Engines::~Engines() = default;
std::shared_ptr<cudnnContext> Engines::handle() { return nullptr; }

Outcome Engines::ask(Pass pass, const Convolution& problem, const Rules&, std::unique_ptr<Offer>& offer) {
  if (!is_offered(problem)) return Failure{"create_execution_plans", "no plan"};
  offer = std::make_unique<EmulatedOffer>(state_->backend, pass, problem);
  return {};
}

void validate(Pass, const Convolution& problem) {
  ensure(expressible(problem), "cudnn", "{}", to_string(problem));
}

std::vector<std::string> plans_on(std::string_view, Pass, const Convolution&, const Rules&) {
  return cuda_emulator::algorithm_names();
}

std::string version() { return "emulated convolutions"; }

}  // namespace tandem::cuda::dnn
