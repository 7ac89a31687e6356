// Optimizer updates on the CPU: the formulas of core/kernels/update_rules.h over flat buffers.
//
// The ranges are split into blocks of at most kBlock elements for the threads, so that many small parameters
// cost no more than one large one. Sums run within blocks, then over blocks in order, for any number of
// threads. The passes are bound by memory (SGD with momentum: 20 bytes per element, Adam: 28).
#include "core/kernels/update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/simd.h"
#include "core/cpu/parallel.h"
#include "core/error.h"
#include "core/kernels/loss_scale.h"
#include "core/kernels/rounding.h"
#include "core/kernels/step.h"
#include "core/kernels/update_rules.h"
#include "core/random.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

using kernels::UpdateConstants;

constexpr Index kBlock = 4096;
constexpr Index kSerial = 32768;  // fewer elements are processed by one thread

struct Block {
  Index range, first, count;
};

// Buffers of one call, kept by the calling thread.
struct Scratch {
  std::vector<Block> blocks;
  std::vector<UpdateConstants> constants;       // one per range
  std::vector<double> weight_squares, squares;  // one per block
};

Scratch& scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

// The first marked row from `row` on, or the number of rows.
Index next_marked(const std::uint8_t* marks, Index row, Index rows) {
  if (row >= rows) return rows;
  const void* const found = std::memchr(marks + row, 1, static_cast<std::size_t>(rows - row));
  return found ? static_cast<const std::uint8_t*>(found) - marks : rows;
}

// Calls add(i, n) for the elements of a table's marked rows; adjacent rows are merged.
template <class Add>
void for_marked_rows(const UpdateRange& range, Add&& add) {
  const Index rows = range.count / range.row;
  for (Index row = next_marked(range.marks, 0, rows); row < rows; row = next_marked(range.marks, row, rows)) {
    const Index first = row;
    while (row < rows && range.marks[row] != 0) ++row;
    add(first * range.row, (row - first) * range.row);
  }
}

// Selection in a table with marks: only its marked rows, or the blocks of the whole table that contain one.
// The latter gives block sums the same bits as for all rows.
enum class Cut : std::uint8_t { rows, blocks };

// Splits the ranges into blocks; returns the number of elements.
Index cut(std::span<const UpdateRange> ranges, Index limit, std::vector<Block>& blocks, Cut of = Cut::rows) {
  blocks.clear();
  Index total = 0;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const UpdateRange& range = ranges[r];
    ensure(range.first >= 0 && range.count >= 0 && range.first + range.count <= limit, "update",
           "range {} to {} exceeds a buffer of {} elements", range.first, range.first + range.count, limit);
    const auto add = [&](Index first, Index last) {
      for (Index i = first; i < last; i += kBlock) {
        blocks.push_back({static_cast<Index>(r), range.first + i, std::min(kBlock, last - i)});
        total += blocks.back().count;
      }
    };
    if (!range.marks) {
      add(0, range.count);
    } else if (of == Cut::rows) {
      for_marked_rows(range, [&](Index first, Index count) { add(first, first + count); });
    } else {
      Index done = 0;  // whole blocks processed
      for_marked_rows(range, [&](Index first, Index count) {
        const Index from = std::max(done, first / kBlock * kBlock);
        done = std::max(done, std::min(range.count, (first + count + kBlock - 1) / kBlock * kBlock));
        add(from, done);
      });
    }
  }
  return total;
}

template <class Body>
void for_blocks(const std::vector<Block>& blocks, Index elements, Body&& body) {
  const Index count = static_cast<Index>(blocks.size());
  const Block* const data = blocks.data();
  parallel_for(elements > kSerial, count, [&](Index b) { body(b, data[b]); });
}

StepState& state_of(const Tensor& state) {
  ensure(state.dtype() == DType::u8 && state.bytes() == sizeof(StepState), "update", "{} is not a step state",
         to_string(state));
  return *static_cast<StepState*>(state.raw());
}

ScaleState& scale_of(const Tensor& scale) {
  ensure(scale.dtype() == DType::u8 && scale.bytes() == sizeof(ScaleState), "update",
         "{} is not a loss scale", to_string(scale));
  return *static_cast<ScaleState*>(scale.raw());
}

std::int32_t saturating_sum(std::int32_t count, Index more) {
  return static_cast<std::int32_t>(std::min<Index>(std::numeric_limits<std::int32_t>::max(), count + more));
}

// ---- Norms

template <class T>
double sum_of_squares(const T* x, T factor, Index n) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < n; ++i) {
    const T value = x[i] * factor;
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

template <class T>
Index count_non_finite(const T* x, T factor, Index n) {
  Index count = 0;
  for (Index i = 0; i < n; ++i) count += !std::isfinite(x[i] * factor);
  return count;
}

template <class T>
double greatest_finite(const T* x, T factor, Index n) {
  T greatest = 0;
#pragma omp simd reduction(max : greatest)
  for (Index i = 0; i < n; ++i) {
    const T size = std::abs(x[i] * factor);
    greatest = std::max(greatest, size <= std::numeric_limits<T>::max() ? size : T(0));
  }
  return static_cast<double>(greatest);
}

template <class T>
void check(const T* gradient, std::span<const UpdateRange> ranges, Index limit, T factor, bool magnitude,
           StepState& state) {
  Scratch& s = scratch();
  const Index total = cut(ranges, limit, s.blocks, Cut::blocks);
  s.squares.resize(s.blocks.size());
  double* const squares = s.squares.data();
  const auto factor_of = [&](const Block& block) {
    return kernels::factor_of_range(factor, ranges[static_cast<std::size_t>(block.range)].gradient_log2);
  };
  for_blocks(s.blocks, total, [&](Index b, const Block& block) {
    squares[b] = sum_of_squares(gradient + block.first, factor_of(block), block.count);
  });
  for (std::size_t b = 0; b < s.blocks.size(); ++b) {
    state.sum_of_squares += squares[b];
    if (std::isfinite(squares[b])) continue;  // squares of finite f32 values cannot overflow an f64
    const Block& block = s.blocks[b];
    const Index bad = count_non_finite(gradient + block.first, factor_of(block), block.count);
    state.non_finite = saturating_sum(state.non_finite, bad);
  }
  if (!magnitude) return;
  for_blocks(s.blocks, total, [&](Index b, const Block& block) {
    squares[b] = greatest_finite(gradient + block.first, factor_of(block), block.count);
  });
  for (std::size_t b = 0; b < s.blocks.size(); ++b) state.amax = std::max(state.amax, squares[b]);
}

// ---- Update

struct Pointers : UpdatePointers {
  RandomKey key;  // of stochastic rounding
};

template <class S>
void round_block(float* x, Index n) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    S rounded[kLanes];
    store(rounded, load(x + i));
    store(x + i, load(rounded));
  }
  for (; i < n; ++i) x[i] = widen(convert<S>(x[i]));
}

void round_block(float* x, DType dtype, Index n) {
  dtype == DType::f16 ? round_block<Half>(x, n) : round_block<BFloat16>(x, n);
}

void round_stochastically(float* x, DType dtype, Index first, Index n, const RandomKey& key) {
  std::array<std::uint32_t, 4> words{};
  for (Index i = 0; i < n; ++i) {
    const Index element = first + i;
    if (i == 0 || element % 4 == 0) words = philox(key, static_cast<std::uint32_t>(element / 4));
    const std::uint32_t random = words[static_cast<std::size_t>(element % 4)];
    x[i] = dtype == DType::f16 ? kernels::round_f16_stochastic(x[i], random)
                               : kernels::round_bf16_stochastic(x[i], random);
  }
}

// Rounds the values that an update of a block stored.
void round_stored(const Pointers& p, Index first, Index n) {
  const StorageRounding& rounding = p.rounding;
  if (rounding.moments != DType::f32) {
    for (float* const moment : {p.moment1, p.moment2, p.moment3})
      if (moment) round_block(moment + first, rounding.moments, n);
  }
  if (rounding.weights == DType::f32) return;
  if (rounding.stochastic) {
    round_stochastically(p.master + first, rounding.weights, first, n, p.key);
  } else {
    round_block(p.master + first, rounding.weights, n);
  }
}

template <class Formula>
void update_block(const UpdateConstants& constants, const Pointers& p, Index first, Index n) {
  constexpr bool k1 = Formula::kMoments > 0, k2 = Formula::kMoments > 1, k3 = Formula::kMoments > 2;
  const UpdateConstants k = constants;
  const float* __restrict g = p.gradient + first;
  float* __restrict w = p.master + first;
  float* __restrict m1 = k1 ? p.moment1 + first : nullptr;
  float* __restrict m2 = k2 ? p.moment2 + first : nullptr;
  float* __restrict m3 = k3 ? p.moment3 + first : nullptr;
#pragma omp simd
  for (Index i = 0; i < n; ++i) {
    float a = 0.0f, b = 0.0f, c = 0.0f, weight = w[i];
    if constexpr (k1) a = m1[i];
    if constexpr (k2) b = m2[i];
    if constexpr (k3) c = m3[i];
    Formula::step(k, g[i], weight, a, b, c);
    w[i] = weight;
    if constexpr (k1) m1[i] = a;
    if constexpr (k2) m2[i] = b;
    if constexpr (k3) m3[i] = c;
  }
  round_stored(p, first, n);
  if (p.working == nullptr) return;
  if (p.working_dtype == DType::f16) {
    narrow_block(w, static_cast<Half*>(p.working) + first, n);
  } else {
    narrow_block(w, static_cast<BFloat16*>(p.working) + first, n);
  }
}

template <class Formula>
void update_blocks(const Pointers& p, const Scratch& s, Index total) {
  const UpdateConstants* const constants = s.constants.data();
  for_blocks(s.blocks, total, [&](Index, const Block& block) {
    update_block<Formula>(constants[block.range], p, block.first, block.count);
  });
}

// Σ of the squares that the trust ratio compares with those of the parameter.
template <class Formula>
double compared_squares(const UpdateConstants& constants, const Pointers& p, const Block& block) {
  constexpr bool kStores = Formula::kComparedStores;
  const UpdateConstants k = constants;
  const float* __restrict g = p.gradient + block.first;
  const float* __restrict w = p.master + block.first;
  float* __restrict m1 = kStores ? p.moment1 + block.first : nullptr;
  float* __restrict m2 = kStores ? p.moment2 + block.first : nullptr;
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < block.count; ++i) {
    float a = 0.0f, b = 0.0f;
    if constexpr (kStores) a = m1[i];
    if constexpr (kStores) b = m2[i];
    const double value = Formula::compared(k, g[i], w[i], a, b);
    if constexpr (kStores) m1[i] = a;
    if constexpr (kStores) m2[i] = b;
    sum += value * value;
  }
  return sum;
}

// First pass of rules with a trust ratio: scales the learning rate of each range by it.
template <class Formula>
void adapt_rates(const UpdateRule& rule, std::span<const UpdateRange> ranges, const Pointers& p, Scratch& s,
                 Index total) {
  s.weight_squares.resize(s.blocks.size());
  s.squares.resize(s.blocks.size());
  double *const weight_squares = s.weight_squares.data(), *const squares = s.squares.data();
  const UpdateConstants* const constants = s.constants.data();
  for_blocks(s.blocks, total, [&](Index b, const Block& block) {
    weight_squares[b] = sum_of_squares(p.master + block.first, 1.0f, block.count);
    squares[b] = compared_squares<Formula>(constants[block.range], p, block);
  });
  for (std::size_t b = 0; b < s.blocks.size();) {
    const Index r = s.blocks[b].range;
    double weight = 0.0, other = 0.0;
    for (; b < s.blocks.size() && s.blocks[b].range == r; ++b) {
      weight += weight_squares[b];
      other += squares[b];
    }
    UpdateConstants& k = s.constants[static_cast<std::size_t>(r)];
    k.lr = static_cast<float>(static_cast<double>(k.lr) *
                              kernels::trust_ratio(rule, ranges[static_cast<std::size_t>(r)], weight, other));
  }
}

Pointers pointers_of(const UpdateBuffers& buffers, const StepState& step) {
  return {pointers_of(buffers),
          {.seed = buffers.rounding.seed,
           .purpose = RandomPurpose::rounding,
           .step = static_cast<std::uint32_t>(step.attempted)}};
}

struct CpuUpdate final : UpdateKernels {
  void accumulate_loss(const Tensor& loss, double weight, const Tensor& state, const Tensor& scale) override {
    const double value = loss.dtype() == DType::f64 ? loss.data<double>()[0] : double{loss.data<float>()[0]};
    StepState& step = state_of(state);
    step.loss_sum += value * weight;
    if (std::isfinite(value)) return;
    ++step.forward_non_finite;
    ++scale_of(scale).forward_non_finite;
  }

  void check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                       const GradientCheck& rules, const Tensor& state, const Tensor& scale) override {
    const ScaleState none;
    const double factor =
        kernels::unscale_factor(rules.unscaled ? none : scale_of(scale), rules.divisor, rules.unscaled);
    StepState& s = state_of(state);
    visit_compute(gradient.dtype(), [&]<class T>(TypeTag<T>) {
      check(gradient.data<T>(), ranges, gradient.numel(), static_cast<T>(factor), rules.magnitude, s);
    });
  }

  void unscale(const Tensor& gradient, std::span<const UpdateRange> ranges, const UnscaleOptions& options,
               const Tensor& target, const Tensor& state, const Tensor& scale) override {
    ScaleState& from = scale_of(scale);
    StepState& step = state_of(state);
    const float of_step = static_cast<float>(kernels::unscale_factor(from, options.divisor, false));
    const float* const x = gradient.data<float>();
    float* const y = target.data<float>();
    Scratch& s = scratch();
    const Index total = cut(ranges, gradient.numel(), s.blocks);
    s.squares.resize(s.blocks.size());
    double* const bad = s.squares.data();
    for_blocks(s.blocks, total, [&](Index b, const Block& block) {
      Index count = 0;
      const float factor =
          kernels::factor_of_range(of_step, ranges[static_cast<std::size_t>(block.range)].gradient_log2);
#pragma omp simd reduction(+ : count)
      for (Index i = block.first; i < block.first + block.count; ++i) {
        const float value = x[i] * factor;
        count += !std::isfinite(value);
        y[i] = options.add ? y[i] + value : value;
      }
      bad[b] = static_cast<double>(count);
    });
    double found = 0.0;
    for (std::size_t b = 0; b < s.blocks.size(); ++b) found += bad[b];
    step.non_finite = saturating_sum(step.non_finite, static_cast<Index>(found));
    if (options.attribute && found > 0.0) ++from.found_inf;
  }

  void sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                const Tensor& scale) override {
    const bool at_floor = scale_of(scale).value <= floor;
    float* const x = gradient.data<float>();
    Scratch& s = scratch();
    const Index total = cut(ranges, gradient.numel(), s.blocks);
    for_blocks(s.blocks, total, [&](Index, const Block& block) {
      for (Index i = block.first; i < block.first + block.count; ++i) {
        if (std::isfinite(x[i])) continue;
        if (std::isinf(x[i])) {
          x[i] = std::copysign(kernels::kGreatestF16, x[i]);
        } else if (at_floor) {
          x[i] = 0.0f;
        }
      }
    });
  }

  void decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                   const Tensor& scale) override {
    ensure(lr_table.numel() >= 2, "decide_step",
           "the table of learning rates needs a base and one entry, got {}", to_string(lr_table));
    kernels::decide_step(rules, lr_table.data<double>(), lr_table.numel() - 1, state_of(state),
                         scale_of(scale));
  }

  void update_scale(const ScaleRules& rules, const Tensor& scale) override {
    kernels::update_scale(rules, scale_of(scale));
  }

  void update(const UpdateRule& rule, std::span<const UpdateRange> ranges, const UpdateBuffers& buffers,
              const Tensor& state) override {
    const StepState& step = state_of(state);
    if (step.skip) return;
    const Pointers p = pointers_of(buffers, step);
    std::int64_t* const counts = buffers.counts.data<std::int64_t>();
    Scratch& s = scratch();
    const Index total = cut(ranges, buffers.master.numel(), s.blocks);
    s.constants.clear();
    for (const UpdateRange& range : ranges)
      s.constants.push_back(kernels::constants_of(rule, range, counts[range.slot]++, step));

    rule.with_element([&]<class Formula>(TypeTag<Formula>) {
      constexpr int kMoments = Formula::kMoments;
      ensure((kMoments < 1 || p.moment1) && (kMoments < 2 || p.moment2) && (kMoments < 3 || p.moment3),
             "update", "the rule needs a moment buffer, got none");
      if constexpr (Formula::kAdapts) adapt_rates<Formula>(rule, ranges, p, s, total);
      update_blocks<Formula>(p, s, total);
    });
  }

  void commit_or_restore(const Tensor& source, const Tensor& target, const Tensor& state) override {
    ensure(source.dtype() == DType::f32 && target.dtype() == DType::f32 && source.numel() == target.numel(),
           "commit_or_restore", "source {} and target {} are not f32 buffers of one size", to_string(source),
           to_string(target));
    const bool skip = state_of(state).skip != 0;
    float *const next = source.data<float>(), *const live = target.data<float>();
    for (Index i = 0; i < source.numel(); ++i) {
      const bool stays = skip || !std::isfinite(next[i]);
      (stays ? next : live)[i] = (stays ? live : next)[i];
    }
  }

  void update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                      const Tensor& state) override {
    ensure(value.numel() == average.numel(), "update_average", "value {} and average {} differ in size",
           to_string(value), to_string(average));
    const StepState& s = state_of(state);
    if (s.skip) return;
    const float rest = static_cast<float>(1.0 - kernels::average_decay(rule, s));
    const Index n = value.numel();
    parallel_ranges(n > kSerial, n, [&, rest](Range range) {
      const float* __restrict x = value.data<float>();
      float* __restrict y = average.data<float>();
#pragma omp simd
      for (Index i = range.first; i < range.last; ++i) y[i] += rest * (x[i] - y[i]);
    });
  }

  void round_to(const Tensor& x, DType dtype) override {
    ensure(x.dtype() == DType::f32 && is_16bit(dtype), "round_to", "{} to {}", to_string(x), name_of(dtype));
    round_block(x.data<float>(), dtype, x.numel());
  }

  void scale_and_limit(const Tensor& x, double factor, double limit) override {
    const auto run = [&]<class T>(TypeTag<T>) {
      const Index n = x.numel();
      T* const data = x.data<T>();
      const T f = static_cast<T>(factor), high = static_cast<T>(limit);
      parallel_ranges(n > kSerial, n, [=](Range range) {
#pragma omp simd
        for (Index i = range.first; i < range.last; ++i) {
          const T value = data[i] * f;
          const T low = value < -high ? -high : value;
          data[i] = low > high ? high : low;
        }
      });
    };
    visit_compute(x.dtype(), run);
  }
};

}  // namespace

UpdateKernels& CpuBackend::update() { return instance<CpuUpdate>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
