// Optimizer updates: the formulas of core/kernels/update_rules.h over flat buffers.
//
// The decision of a step stays on the device: kernels read the skip flag themselves. Sums are f64 by thread,
// by block, then over blocks, in an order that depends only on the ranges. The passes are bound by memory:
// SGD with momentum moves 20 bytes per element, Adam 28, both 2 more with a working copy; LARS 28, LAMB 40
// (two passes).
#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <type_traits>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/update_ranges.h"
#include "core/error.h"
#include "core/kernels/philox.h"
#include "core/kernels/rounding.h"
#include "core/kernels/update_rules.h"
#include "core/random.h"

namespace tandem::cuda {

namespace {

using kernels::UpdateConstants;

// ---- Ranges as arguments

constexpr int kConstantsThreads = (kRanges + kWarp - 1) / kWarp * kWarp;

// Further inputs of an update's constants, and the offsets of its pieces.
struct Settings {
  std::int32_t ranges;
  std::int32_t slot[kRanges];
  float lr_factor[kRanges], weight_decay[kRanges];
  std::int32_t end[kRanges];
  bool adapt[kRanges];
  std::int8_t gradient_log2[kRanges];
};
static_assert(sizeof(Settings) <= 3600);

Settings settings_of(const Chunk& chunk, std::span<const UpdateRange> ranges) {
  Settings s{};
  s.ranges = chunk.ranges;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    s.slot[r] = static_cast<std::int32_t>(ranges[r].slot);
    s.lr_factor[r] = ranges[r].lr_factor;
    s.weight_decay[r] = ranges[r].weight_decay;
    s.end[r] = chunk.end[r];
    s.adapt[r] = ranges[r].adapt;
    s.gradient_log2[r] = ranges[r].gradient_log2;
  }
  return s;
}

__device__ __forceinline__ UpdateRange range_of(const Settings& s, int r) {
  UpdateRange range;
  range.slot = s.slot[r];
  range.lr_factor = s.lr_factor[r];
  range.weight_decay = s.weight_decay[r];
  range.adapt = s.adapt[r];
  range.gradient_log2 = s.gradient_log2[r];
  return range;
}

// ---- Update

struct Buffers : UpdatePointers {
  bool packs;  // four adjacent elements of every buffer can be accessed at once, from multiples of four
};

// Increments the update count of every range and computes its constants, in one block with one thread per
// range. Ranges of one slot count in order, like separate updates.
__global__ void __launch_bounds__(kConstantsThreads)
    constants_kernel(const __grid_constant__ Settings settings, UpdateRule rule, std::int64_t* counts,
                     const StepState* state, UpdateConstants* constants) {
  await_earlier_work();
  if (state->skip != 0) return;
  const int r = threadIdx.x;
  const bool active = r < settings.ranges;
  const std::int32_t slot = active ? settings.slot[r] : -1;
  std::int64_t updates = 0;
  bool last = active;
  if (active) {
    updates = counts[slot];
    for (int other = 0; other < settings.ranges; ++other) {
      if (settings.slot[other] != slot) continue;
      if (other < r) ++updates;
      if (other > r) last = false;
    }
    constants[r] = kernels::constants_of(rule, range_of(settings, r), updates, *state);
  }
  __syncthreads();  // all counts have been read
  if (last) counts[slot] = updates + 1;
}

template <int kWidth>
__device__ __forceinline__ void round_moment(Pack<float, kWidth>& values, DType dtype) {
#pragma unroll
  for (float& value : values.value) value = rounded(value, dtype);
}

// Comparisons instead of a variable index, which would put the words into local memory.
__device__ __forceinline__ std::uint32_t word_of(const kernels::PhiloxBlock& block, int i) {
  return i == 0 ? block.word[0] : i == 1 ? block.word[1] : i == 2 ? block.word[2] : block.word[3];
}

// Elements from `first` on; a pack of four uses one Philox block.
template <int kWidth>
__device__ __forceinline__ void round_weights(Pack<float, kWidth>& values, const StorageRounding& rounding,
                                              std::uint32_t step, Index first) {
  kernels::PhiloxBlock random{};
  if (rounding.stochastic) {
    const RandomKey key{.seed = rounding.seed, .purpose = RandomPurpose::rounding, .step = step};
    random = kernels::philox(key, static_cast<std::uint32_t>(first / 4));
  }
#pragma unroll
  for (int l = 0; l < kWidth; ++l) {
    float& value = values.value[l];
    if (!rounding.stochastic) {
      value = rounded(value, rounding.weights);
    } else {
      const std::uint32_t word = kWidth == 1 ? word_of(random, static_cast<int>(first % 4)) : random.word[l];
      value = rounding.weights == DType::f16 ? kernels::round_f16_stochastic(value, word)
                                             : kernels::round_bf16_stochastic(value, word);
    }
  }
}

template <class S, int kWidth>
__device__ __forceinline__ void put_narrow(void* working, Index i, const Pack<float, kWidth>& values) {
  // One word, because nvcc does not merge member stores here.
  using Word = std::conditional_t<kWidth == 4, std::uint64_t, std::uint16_t>;
  Word word = 0;
#pragma unroll
  for (int l = 0; l < kWidth; ++l)
    word |= static_cast<Word>(static_cast<Word>(convert<S>(values.value[l]).bits) << (16 * l));
  *reinterpret_cast<Word*>(static_cast<S*>(working) + i) = word;
}

// One block per piece. kRounds: rounds weights or moments to 16 bits, in a separate kernel, because the
// common one needs fewer registers.
template <class Formula, bool kRounds>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Chunk chunk, const __grid_constant__ Buffers p,
                  const UpdateConstants* constants, const StepState* state) {
  await_earlier_work();
  if (state->skip != 0) return;
  constexpr bool k1 = Formula::kMoments > 0, k2 = Formula::kMoments > 1, k3 = Formula::kMoments > 2;
  // The first pass may have stored the moments already, but unrounded.
  constexpr bool kStores = !Formula::kComparedStores || kRounds;
  const std::uint32_t step = static_cast<std::uint32_t>(state->attempted);
  const Piece piece = piece_of(chunk, static_cast<int>(blockIdx.x));
  const UpdateConstants k = constants[piece.range];
  const auto update = [&](auto width, Index i) {
    constexpr int kWidth = width();
    using Values = Pack<float, kWidth>;
    const Values g = fetch<kWidth>(p.gradient + i);
    Values w = fetch<kWidth>(static_cast<const float*>(p.master) + i), a{}, b{}, c{};
    if constexpr (k1) a = fetch<kWidth>(static_cast<const float*>(p.moment1) + i);
    if constexpr (k2) b = fetch<kWidth>(static_cast<const float*>(p.moment2) + i);
    if constexpr (k3) c = fetch<kWidth>(static_cast<const float*>(p.moment3) + i);
#pragma unroll
    for (int l = 0; l < kWidth; ++l)
      Formula::step(k, g.value[l], w.value[l], a.value[l], b.value[l], c.value[l]);
    if constexpr (kRounds) {
      if (p.rounding.moments != DType::f32) {
        if constexpr (k1) round_moment(a, p.rounding.moments);
        if constexpr (k2) round_moment(b, p.rounding.moments);
        if constexpr (k3) round_moment(c, p.rounding.moments);
      }
      if (p.rounding.weights != DType::f32) round_weights(w, p.rounding, step, i);
    }
    put<kWidth>(p.master + i, w);
    if constexpr (k1 && kStores) put<kWidth>(p.moment1 + i, a);
    if constexpr (k2 && kStores) put<kWidth>(p.moment2 + i, b);
    if constexpr (k3 && kStores) put<kWidth>(p.moment3 + i, c);
    if (p.working == nullptr) return;
    if (p.working_dtype == DType::f16) {
      put_narrow<Half>(p.working, i, w);
    } else {
      put_narrow<BFloat16>(p.working, i, w);
    }
  };
  for_marked_rows(chunk, piece, [&](const Piece& part) { walk<4>(part, p.packs, update); });
}

// ---- Rules with a trust ratio: the first pass

struct Squares {
  double weight, other;  // of the parameter; of the value that the rule compares with it
};

// Layout of the backend's reserved memory for updates.
struct Room {
  static constexpr int kPieces = 100'000;
  UpdateConstants constants[kRanges];
  Squares squares[kPieces];
};
static_assert(sizeof(Room) <= CudaBackend::kUpdateRoom);

// One block per piece.
template <class Formula>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const __grid_constant__ Chunk chunk, const __grid_constant__ Buffers p,
                   const UpdateConstants* constants, const StepState* state, Squares* squares) {
  await_earlier_work();
  if (state->skip != 0) return;
  __shared__ double shared[kWarp];
  const Piece piece = piece_of(chunk, static_cast<int>(blockIdx.x));
  const UpdateConstants k = constants[piece.range];
  double weight = 0.0, other = 0.0;
  const auto add = [](double& sum, float value) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  };
  walk<4>(piece, p.packs, [&](auto width, Index i) {
    constexpr int kWidth = width();
    using Values = Pack<float, kWidth>;
    const Values g = fetch<kWidth>(p.gradient + i);
    const Values w = fetch<kWidth>(static_cast<const float*>(p.master) + i);
    Values a{}, b{};
    if constexpr (Formula::kComparedStores) {
      a = fetch<kWidth>(static_cast<const float*>(p.moment1) + i);
      b = fetch<kWidth>(static_cast<const float*>(p.moment2) + i);
    }
#pragma unroll
    for (int l = 0; l < kWidth; ++l) {
      add(weight, w.value[l]);
      add(other, Formula::compared(k, g.value[l], w.value[l], a.value[l], b.value[l]));
    }
    if constexpr (Formula::kComparedStores) {
      put<kWidth>(p.moment1 + i, a);
      put<kWidth>(p.moment2 + i, b);
    }
  });
  weight = block_reduce(weight, 0.0, shared, Sum{});
  other = block_reduce(other, 0.0, shared, Sum{});
  if (threadIdx.x == 0) squares[blockIdx.x] = {weight, other};
}

// One block per range: multiplies its learning rate by its trust ratio.
__global__ void __launch_bounds__(kThreads)
    trust_kernel(const __grid_constant__ Settings settings, UpdateRule rule, const Squares* squares,
                 const StepState* state, UpdateConstants* constants) {
  await_earlier_work();
  if (state->skip != 0) return;
  __shared__ double shared[kWarp];
  const int r = static_cast<int>(blockIdx.x);
  double weight = 0.0, other = 0.0;
  for (int i = (r == 0 ? 0 : settings.end[r - 1]) + threadIdx.x; i < settings.end[r]; i += kThreads) {
    weight += squares[i].weight;
    other += squares[i].other;
  }
  weight = block_reduce(weight, 0.0, shared, Sum{});
  other = block_reduce(other, 0.0, shared, Sum{});
  if (threadIdx.x != 0) return;
  float& lr = constants[r].lr;
  lr = static_cast<float>(static_cast<double>(lr) *
                          kernels::trust_ratio(rule, range_of(settings, r), weight, other));
}

// ---- Kernel selection

struct Pass {
  void (*kernel)(Chunk, Buffers, const UpdateConstants*, const StepState*) = nullptr;
  // For rules with a trust ratio, else null.
  void (*squares)(Chunk, Buffers, const UpdateConstants*, const StepState*, Squares*) = nullptr;
  int moments = 0;
};

Pass pass_of(const UpdateRule& rule, bool rounds) {
  Pass pass;
  rule.with_element([&]<class Formula>(TypeTag<Formula>) {
    pass.kernel = rounds ? update_kernel<Formula, true> : update_kernel<Formula, false>;
    if constexpr (Formula::kAdapts) pass.squares = squares_kernel<Formula>;
    pass.moments = Formula::kMoments;
  });
  return pass;
}

Buffers buffers_of(const UpdateBuffers& buffers) {
  Buffers p{pointers_of(buffers), false};
  p.packs = is_aligned(p.gradient) && is_aligned(p.master) && is_aligned(p.moment1) &&
            is_aligned(p.moment2) && is_aligned(p.moment3) && is_aligned(p.working, 8);
  return p;
}

}  // namespace

void CudaUpdate::update(const UpdateRule& rule, std::span<const UpdateRange> ranges,
                        const UpdateBuffers& buffers, const Tensor& state) {
  const StepState* const step = state_of(state);
  const Buffers p = buffers_of(buffers);
  std::int64_t* const counts = buffers.counts.data<std::int64_t>();
  const bool rounds = p.rounding.weights != DType::f32 || p.rounding.moments != DType::f32;
  const Pass pass = pass_of(rule, rounds);
  ensure(
      (pass.moments < 1 || p.moment1) && (pass.moments < 2 || p.moment2) && (pass.moments < 3 || p.moment3),
      "update", "the rule needs a moment buffer, got none");

  for_chunks(ranges, buffers.master.numel(), [&](const Chunk& chunk, std::span<const UpdateRange> part) {
    Room* const room = static_cast<Room*>(backend.update_room(sizeof(Room)));
    UpdateConstants* const constants = room->constants;
    const Settings settings = settings_of(chunk, part);
    launch_early("update", constants_kernel, 1, kConstantsThreads, backend.stream(), settings, rule, counts,
                 step, constants);
    if (chunk.pieces == 0) return;
    const unsigned blocks = static_cast<unsigned>(chunk.pieces);
    if (pass.squares) {
      // The reserved memory suffices for the norms of 400 million elements; larger models allocate more.
      const bool fits = chunk.pieces <= Room::kPieces;
      const Tensor more =
          backend.workspace({fits ? 0 : chunk.pieces * static_cast<Index>(sizeof(Squares))}, DType::u8);
      Squares* const squares = fits ? room->squares : static_cast<Squares*>(more.raw());
      launch_early("update", pass.squares, blocks, kThreads, backend.stream(), chunk, p, constants, step,
                   squares);
      launch_early("update", trust_kernel, chunk.ranges, kThreads, backend.stream(), settings, rule, squares,
                   step, constants);
    }
    launch_early("update", pass.kernel, blocks, kThreads, backend.stream(), chunk, p, constants, step);
  });
}

UpdateKernels& CudaBackend::update() { return own<CudaUpdate>(kernels_.update); }

}  // namespace tandem::cuda
