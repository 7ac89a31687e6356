// The update family: the formulas of core/kernels/update.h over flat buffers.
//
// Ranges travel as arguments of a kernel, up to kRanges in a launch, and are cut into pieces of a fixed size
// that blocks of threads take one by one, so that many small parameters cost no more than one large one. What
// a step decides stays on the device: a kernel that must do nothing in a skipped step reads that itself. Sums
// are f64, taken by thread, by block and then over blocks, each in an order that follows from the ranges
// alone. The passes are bound by memory: a check reads 4 bytes an element, SGD with momentum moves 20, Adam
// 28, and 2 more each with a working copy; LARS 28 and LAMB 40 in two passes.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/loss_scale.h"
#include "core/kernels/philox.h"
#include "core/kernels/rounding.h"
#include "core/kernels/update.h"
#include "core/random.h"

namespace tandem::cuda {

namespace {

using kernels::UpdateConstants;

// ---- Ranges as arguments
// ----------------------------------------------------------------------------------------------------

constexpr int kRanges = 176;    // of a launch: with the other arguments they stay below 4 KB
constexpr Index kPiece = 4096;  // elements
constexpr int kConstantsThreads = (kRanges + kWarp - 1) / kWarp * kWarp;

struct Chunk {
  std::int32_t ranges, pieces;
  Index first[kRanges], count[kRanges];
  std::int32_t end[kRanges];  // pieces of the ranges up to and with this one
};

// What else the constants of an update depend on, and where its pieces lie.
struct Settings {
  std::int32_t ranges;
  std::int32_t slot[kRanges];
  float lr_factor[kRanges], weight_decay[kRanges];
  std::int32_t end[kRanges];
  bool adapt[kRanges];
};
static_assert(sizeof(Chunk) <= 3600 && sizeof(Settings) <= 3600);

// Calls use(chunk, its ranges) for as many chunks as it takes.
template <class Use>
void for_chunks(std::span<const UpdateRange> ranges, Index limit, const Use& use) {
  Chunk chunk;
  for (std::size_t at = 0; at < ranges.size(); at += kRanges) {
    const auto part = ranges.subspan(at, std::min<std::size_t>(kRanges, ranges.size() - at));
    chunk.ranges = static_cast<std::int32_t>(part.size());
    Index pieces = 0;
    for (std::size_t r = 0; r < part.size(); ++r) {
      const UpdateRange& range = part[r];
      ensure(range.first >= 0 && range.count >= 0 && range.first + range.count <= limit, "update",
             "range {} to {} exceeds a buffer of {} elements", range.first, range.first + range.count, limit);
      pieces += ceil_div(range.count, kPiece);
      chunk.first[r] = range.first;
      chunk.count[r] = range.count;
      chunk.end[r] = static_cast<std::int32_t>(pieces);
    }
    chunk.pieces = static_cast<std::int32_t>(pieces);
    use(chunk, part);
  }
}

Settings settings_of(const Chunk& chunk, std::span<const UpdateRange> ranges) {
  Settings s{};
  s.ranges = chunk.ranges;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    s.slot[r] = static_cast<std::int32_t>(ranges[r].slot);
    s.lr_factor[r] = ranges[r].lr_factor;
    s.weight_decay[r] = ranges[r].weight_decay;
    s.end[r] = chunk.end[r];
    s.adapt[r] = ranges[r].adapt;
  }
  return s;
}

__device__ __forceinline__ UpdateRange range_of(const Settings& s, int r) {
  UpdateRange range;
  range.slot = s.slot[r];
  range.lr_factor = s.lr_factor[r];
  range.weight_decay = s.weight_decay[r];
  range.adapt = s.adapt[r];
  return range;
}

struct Piece {
  int range;
  Index first;
  int count;
};

__device__ __forceinline__ Piece piece_of(const Chunk& chunk, int piece) {
  int range = 0, last = chunk.ranges - 1;  // the first whose end lies behind the piece
  while (range < last) {
    const int middle = (range + last) / 2;
    if (chunk.end[middle] > piece) {
      last = middle;
    } else {
      range = middle + 1;
    }
  }
  const Index offset = Index{piece - (range == 0 ? 0 : chunk.end[range - 1])} * kPiece;
  const Index rest = chunk.count[range] - offset;
  return {range, chunk.first[range] + offset, static_cast<int>(rest < kPiece ? rest : kPiece)};
}

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

// Calls visit(Width<n>, i) for n neighbouring elements at a time, from element i of the buffers on: kWidth of
// them where the buffers allow it (`packs`) and the piece starts at a multiple, and single ones elsewhere.
template <int kWidth, class Visit>
__device__ __forceinline__ void walk(const Piece& piece, bool packs, const Visit& visit) {
  int done = 0;
  if (packs && piece.first % kWidth == 0) {
    done = piece.count / kWidth * kWidth;
#pragma unroll 2
    for (int i = threadIdx.x * kWidth; i < done; i += kThreads * kWidth)
      visit(Width<kWidth>{}, piece.first + i);
  }
  for (int i = done + threadIdx.x; i < piece.count; i += kThreads) visit(Width<1>{}, piece.first + i);
}

template <int kWidth, class T>
__device__ __forceinline__ Pack<T, kWidth> fetch(const T* address) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(address);
}
// Four floats by the instruction for four: behind branches nvcc leaves the stores of members apart.
template <int kWidth, class T>
__device__ __forceinline__ void put(T* address, const Pack<T, kWidth>& values) {
  if constexpr (std::is_same_v<T, float> && kWidth == 4) {
    __stwb(reinterpret_cast<float4*>(address),
           make_float4(values.value[0], values.value[1], values.value[2], values.value[3]));
  } else {
    *reinterpret_cast<Pack<T, kWidth>*>(address) = values;
  }
}

bool aligned(const void* address, std::size_t to = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

StepState* state_of(const Tensor& state) {
  ensure(state.dtype() == DType::u8 && state.bytes() == sizeof(StepState), "update", "{} is not a step state",
         to_string(state));
  return static_cast<StepState*>(state.raw());
}

ScaleState* scale_of(const Tensor& scale) {
  ensure(scale.dtype() == DType::u8 && scale.bytes() == sizeof(ScaleState), "update",
         "{} is not a loss scale", to_string(scale));
  return static_cast<ScaleState*>(scale.raw());
}

template <class T>
T* room(const Tensor& workspace) {
  return static_cast<T*>(workspace.raw());
}
template <class T>
Shape bytes_for(Index count) {
  return {count * static_cast<Index>(sizeof(T))};
}

// ---- What is gathered from gradients
// ----------------------------------------------------------------------------------------------------

struct Gathered {
  double squares, greatest;
  unsigned bad;
};

struct Greater {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// By all threads of a block.
__device__ __forceinline__ void gather(double squares, double greatest, unsigned bad, Gathered& result) {
  __shared__ double doubles[kWarp];
  __shared__ unsigned counts[kWarp];
  squares = block_reduce(squares, 0.0, doubles, Sum{});
  greatest = block_reduce(greatest, 0.0, doubles, Greater{});
  bad = block_reduce(bad, 0u, counts, Sum{});
  if (threadIdx.x == 0) result = {squares, greatest, bad};
}

template <class T, bool kMagnitude>
__global__ void __launch_bounds__(kThreads)
    check_kernel(const __grid_constant__ Chunk chunk, const T* x, bool packs, double divisor, bool unscaled,
                 const ScaleState* scale, Gathered* gathered) {
  ScaleState from;
  if (!unscaled) from.value = scale->value;
  const T factor = static_cast<T>(kernels::unscale_factor(from, divisor, unscaled));
  constexpr T kGreatest = std::numeric_limits<T>::max();
  double squares = 0.0;
  T greatest = 0;
  unsigned bad = 0;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    walk<Pack<T>::kSize>(piece_of(chunk, p), packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      const Pack<T, kWidth> values = fetch<kWidth>(x + i);
#pragma unroll
      for (const T element : values.value) {
        const T value = element * factor;
        squares += static_cast<double>(value) * static_cast<double>(value);
        const T size = std::abs(value);
        const bool finite = size <= kGreatest;
        bad += !finite;
        if constexpr (kMagnitude) greatest = finite && size > greatest ? size : greatest;
      }
    });
  }
  gather(squares, static_cast<double>(greatest), bad, gathered[blockIdx.x]);
}

__device__ __forceinline__ std::int32_t saturating_sum(std::int32_t count, unsigned long long more) {
  constexpr unsigned long long kMost = std::numeric_limits<std::int32_t>::max();
  const unsigned long long sum = static_cast<unsigned long long>(count) + more;
  return static_cast<std::int32_t>(sum < kMost ? sum : kMost);
}

// One block: adds what the blocks of a pass found to the state. `attributed` is a scale whose overflow a
// non-finite value is, or null.
__global__ void __launch_bounds__(kThreads)
    gathered_kernel(const Gathered* gathered, int count, StepState* state, ScaleState* attributed) {
  __shared__ double doubles[kWarp];
  __shared__ unsigned long long counts[kWarp];
  double squares = 0.0, greatest = 0.0;
  unsigned long long bad = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    squares += gathered[i].squares;
    greatest = Greater{}(greatest, gathered[i].greatest);
    bad += gathered[i].bad;
  }
  squares = block_reduce(squares, 0.0, doubles, Sum{});
  greatest = block_reduce(greatest, 0.0, doubles, Greater{});
  bad = block_reduce(bad, 0ull, counts, Sum{});
  if (threadIdx.x != 0) return;
  state->sum_of_squares += squares;
  state->amax = Greater{}(state->amax, greatest);
  state->non_finite = saturating_sum(state->non_finite, bad);
  if (attributed != nullptr && bad != 0) ++attributed->found;
}

__global__ void __launch_bounds__(kThreads)
    unscale_kernel(const __grid_constant__ Chunk chunk, const float* x, float* y, bool packs, double divisor,
                   bool add, const ScaleState* scale, Gathered* gathered) {
  ScaleState from;
  from.value = scale->value;
  const float factor = static_cast<float>(kernels::unscale_factor(from, divisor, false));
  unsigned bad = 0;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    walk<4>(piece_of(chunk, p), packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      Pack<float, kWidth> values = fetch<kWidth>(x + i), sums{};
      if (add) sums = fetch<kWidth>(static_cast<const float*>(y) + i);
#pragma unroll
      for (int l = 0; l < kWidth; ++l) {
        const float value = values.value[l] * factor;
        bad += !std::isfinite(value);
        values.value[l] = add ? sums.value[l] + value : value;
      }
      put<kWidth>(y + i, values);
    });
  }
  gather(0.0, 0.0, bad, gathered[blockIdx.x]);
}

// Writes only where something was repaired.
__global__ void __launch_bounds__(kThreads)
    sanitize_kernel(const __grid_constant__ Chunk chunk, float* x, bool packs, float floor,
                    const ScaleState* scale) {
  constexpr float kGreatest = 65504.0f;
  const bool at_floor = scale->value <= floor;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    walk<4>(piece_of(chunk, p), packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      Pack<float, kWidth> values = fetch<kWidth>(static_cast<const float*>(x) + i);
      bool repaired = false;
#pragma unroll
      for (float& value : values.value) {
        if (std::isfinite(value)) continue;
        if (std::isinf(value)) {
          value = std::copysign(kGreatest, value);
          repaired = true;
        } else if (at_floor) {
          value = 0.0f;
          repaired = true;
        }
      }
      if (repaired) put<kWidth>(x + i, values);
    });
  }
}

// ---- One thread
// ----------------------------------------------------------------------------------------------------

template <class T>
__global__ void note_loss_kernel(const T* loss, ScaleState* scale) {
  if (!std::isfinite(*loss)) ++scale->forward_non_finite;
}

__global__ void decide_kernel(StepRules rules, const double* table, std::int64_t entries, StepState* state,
                              ScaleState* scale) {
  kernels::decide_step(rules, table, entries, *state, *scale);
}

__global__ void update_scale_kernel(ScaleRules rules, ScaleState* scale) {
  kernels::update_scale(rules, *scale);
}

// ---- Update
// ----------------------------------------------------------------------------------------------------

struct Buffers {
  const float* gradient;
  float *master, *moment1, *moment2, *moment3;
  void* working;
  DType working_dtype;
  StorageRounding rounding;
  bool packs;  // four elements of every buffer may be accessed at once where the first is a multiple of four
};

// Counts the update of every range and computes its constants: one block, a thread a range. Ranges of one
// slot count in their order, as if each were an update of its own.
__global__ void __launch_bounds__(kConstantsThreads)
    constants_kernel(const __grid_constant__ Settings settings, UpdateRule rule, std::int64_t* counts,
                     const StepState* state, UpdateConstants* constants) {
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
  __syncthreads();  // every count is read
  if (last) counts[slot] = updates + 1;
}

__device__ __forceinline__ float rounded(float value, DType dtype) {
  return dtype == DType::f16 ? widen(convert<Half>(value)) : widen(convert<BFloat16>(value));
}

template <int kWidth>
__device__ __forceinline__ void round_moment(Pack<float, kWidth>& values, DType dtype) {
#pragma unroll
  for (float& value : values.value) value = rounded(value, dtype);
}

// By comparisons: an index that is not constant would put the words into memory.
__device__ __forceinline__ std::uint32_t word_of(const kernels::PhiloxBlock& block, int i) {
  return i == 0 ? block.word[0] : i == 1 ? block.word[1] : i == 2 ? block.word[2] : block.word[3];
}

// The elements from `first` on; a pack of four is a block of Philox.
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
  // As one word: nvcc does not join the stores of members here.
  using Word = std::conditional_t<kWidth == 4, std::uint64_t, std::uint16_t>;
  Word word = 0;
#pragma unroll
  for (int l = 0; l < kWidth; ++l)
    word |= static_cast<Word>(static_cast<Word>(convert<S>(values.value[l]).bits) << (16 * l));
  *reinterpret_cast<Word*>(static_cast<S*>(working) + i) = word;
}

// A block for each piece. kRounds: weights or moments are rounded to 16 bits; a kernel of its own, since the
// usual one needs fewer registers.
template <class Element, bool kRounds>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Chunk chunk, const __grid_constant__ Buffers p,
                  const UpdateConstants* constants, const StepState* state) {
  if (state->skip != 0) return;
  constexpr bool k1 = (Element::kMoments & 1u) != 0, k2 = (Element::kMoments & 2u) != 0,
                 k3 = (Element::kMoments & 4u) != 0;
  // The first pass of LAMB has stored the moments already, though not rounded.
  constexpr bool kStores = !std::is_same_v<Element, kernels::LambElement> || kRounds;
  const std::uint32_t step = static_cast<std::uint32_t>(state->attempted);
  const Piece piece = piece_of(chunk, static_cast<int>(blockIdx.x));
  const UpdateConstants k = constants[piece.range];
  walk<4>(piece, p.packs, [&](auto width, Index i) {
    constexpr int kWidth = width();
    using Values = Pack<float, kWidth>;
    const Values g = fetch<kWidth>(p.gradient + i);
    Values w = fetch<kWidth>(static_cast<const float*>(p.master) + i), a{}, b{}, c{};
    if constexpr (k1) a = fetch<kWidth>(static_cast<const float*>(p.moment1) + i);
    if constexpr (k2) b = fetch<kWidth>(static_cast<const float*>(p.moment2) + i);
    if constexpr (k3) c = fetch<kWidth>(static_cast<const float*>(p.moment3) + i);
#pragma unroll
    for (int l = 0; l < kWidth; ++l)
      Element::step(k, g.value[l], w.value[l], a.value[l], b.value[l], c.value[l]);
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
  });
}

// ---- LARS and LAMB: the first pass
// ----------------------------------------------------------------------------------------------------

struct Squares {
  double weight, other;  // of the parameter; of its gradient (LARS) or direction (LAMB)
};

// A block for each piece.
template <bool kLamb>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const __grid_constant__ Chunk chunk, const __grid_constant__ Buffers p,
                   const UpdateConstants* constants, const StepState* state, Squares* squares) {
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
    if constexpr (kLamb) {
      Values a = fetch<kWidth>(static_cast<const float*>(p.moment1) + i);
      Values b = fetch<kWidth>(static_cast<const float*>(p.moment2) + i);
#pragma unroll
      for (int l = 0; l < kWidth; ++l) {
        kernels::LambElement::moments(k, g.value[l], a.value[l], b.value[l]);
        add(weight, w.value[l]);
        add(other, kernels::LambElement::direction(k, w.value[l], a.value[l], b.value[l]));
      }
      put<kWidth>(p.moment1 + i, a);
      put<kWidth>(p.moment2 + i, b);
    } else {
#pragma unroll
      for (int l = 0; l < kWidth; ++l) {
        add(weight, w.value[l]);
        add(other, kernels::unscaled(k, g.value[l]));
      }
    }
  });
  weight = block_reduce(weight, 0.0, shared, Sum{});
  other = block_reduce(other, 0.0, shared, Sum{});
  if (threadIdx.x == 0) squares[blockIdx.x] = {weight, other};
}

// A block for each range: puts its trust ratio into its learning rate.
__global__ void __launch_bounds__(kThreads)
    trust_kernel(const __grid_constant__ Settings settings, UpdateRule rule, const Squares* squares,
                 const StepState* state, UpdateConstants* constants) {
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

// ---- Which kernel updates
// ----------------------------------------------------------------------------------------------------

struct Pass {
  void (*kernel)(Chunk, Buffers, const UpdateConstants*, const StepState*);
  unsigned moments;
};

template <class Element>
Pass pass_of(bool rounds) {
  return {rounds ? update_kernel<Element, true> : update_kernel<Element, false>, Element::kMoments};
}

template <bool kDecoupled>
Pass adam_pass(const UpdateRule& rule, bool rounds) {
  return rule.amsgrad ? pass_of<kernels::AdamElement<kDecoupled, true>>(rounds)
                      : pass_of<kernels::AdamElement<kDecoupled, false>>(rounds);
}

template <bool kCentered>
Pass rmsprop_pass(const UpdateRule& rule, bool rounds) {
  return rule.momentum != 0.0 ? pass_of<kernels::RmspropElement<kCentered, true>>(rounds)
                              : pass_of<kernels::RmspropElement<kCentered, false>>(rounds);
}

Pass pass_of(const UpdateRule& rule, bool rounds) {
  using kernels::MomentumForm;
  switch (rule.kind) {
    case UpdateKind::sgd:
      if (rule.momentum == 0.0) return pass_of<kernels::SgdElement<MomentumForm::none>>(rounds);
      return rule.nesterov ? pass_of<kernels::SgdElement<MomentumForm::nesterov>>(rounds)
                           : pass_of<kernels::SgdElement<MomentumForm::classical>>(rounds);
    case UpdateKind::adam:
      return adam_pass<false>(rule, rounds);
    case UpdateKind::adamw:
      return adam_pass<true>(rule, rounds);
    case UpdateKind::rmsprop:
      return rule.centered ? rmsprop_pass<true>(rule, rounds) : rmsprop_pass<false>(rule, rounds);
    case UpdateKind::adagrad:
      return pass_of<kernels::AdagradElement>(rounds);
    case UpdateKind::lars:
      return pass_of<kernels::LarsElement>(rounds);
    case UpdateKind::lamb:
      break;
  }
  return pass_of<kernels::LambElement>(rounds);
}

float* buffer(const Tensor& tensor, Index length) {
  if (!tensor.defined()) return nullptr;
  ensure(tensor.numel() == length, "update", "buffer {} beside masters of {} elements", to_string(tensor),
         length);
  return tensor.data<float>();
}

Buffers buffers_of(const UpdateBuffers& buffers) {
  const Index length = buffers.master.numel();
  const Tensor& working = buffers.working;
  ensure(!working.defined() || (is_16bit(working.dtype()) && working.numel() == length), "update",
         "{} is not a 16-bit copy of {} masters", to_string(working), length);
  Buffers p{.gradient = buffer(buffers.gradient, length),
            .master = buffer(buffers.master, length),
            .moment1 = buffer(buffers.moment1, length),
            .moment2 = buffer(buffers.moment2, length),
            .moment3 = buffer(buffers.moment3, length),
            .working = working.defined() ? working.raw() : nullptr,
            .working_dtype = working.defined() ? working.dtype() : DType::f32,
            .rounding = buffers.rounding,
            .packs = false};
  p.packs = aligned(p.gradient) && aligned(p.master) && aligned(p.moment1) && aligned(p.moment2) &&
            aligned(p.moment3) && aligned(p.working, 8);
  return p;
}

// ---- After the step
// ----------------------------------------------------------------------------------------------------

using Bytes = Pack<std::uint8_t>;

__global__ void commit_kernel(std::uint8_t* source, std::uint8_t* target, Index packs, Index count,
                              const StepState* state) {
  const bool skip = state->skip != 0;
  const std::uint8_t* const from = skip ? target : source;
  std::uint8_t* const to = skip ? source : target;
  const Index stride = Index{gridDim.x} * kThreads, first = Index{blockIdx.x} * kThreads + threadIdx.x;
  for (Index p = first; p < packs; p += stride)
    reinterpret_cast<Bytes*>(to)[p] = reinterpret_cast<const Bytes*>(from)[p];
  for (Index i = packs * Bytes::kSize + first; i < count; i += stride) to[i] = from[i];
}

__global__ void average_kernel(const float* x, float* y, Index packs, Index count, AverageRule rule,
                               const StepState* state) {
  if (state->skip != 0) return;
  const float rest = static_cast<float>(1.0 - kernels::average_decay(rule, *state));
  const Index stride = Index{gridDim.x} * kThreads, first = Index{blockIdx.x} * kThreads + threadIdx.x;
  for (Index p = first; p < packs; p += stride) {
    const Pack<float> value = fetch<4>(x + 4 * p);
    Pack<float> average = fetch<4>(static_cast<const float*>(y) + 4 * p);
#pragma unroll
    for (int l = 0; l < 4; ++l) average.value[l] += rest * (value.value[l] - average.value[l]);
    put<4>(y + 4 * p, average);
  }
  for (Index i = 4 * packs + first; i < count; i += stride) y[i] += rest * (x[i] - y[i]);
}

// ---- In place
// ----------------------------------------------------------------------------------------------------

struct RoundTo {
  DType dtype;
  __device__ __forceinline__ float operator()(float value) const { return rounded(value, dtype); }
};

template <class T>
struct ScaleAndLimit {
  T factor, limit;
  __device__ __forceinline__ T operator()(T x) const {
    const T value = x * factor;
    const T low = value < -limit ? -limit : value;
    return low > limit ? limit : low;
  }
};

template <class T, class Change>
__global__ void in_place_kernel(T* x, Index packs, Index count, Change change) {
  constexpr int kWidth = Pack<T>::kSize;
  const Index stride = Index{gridDim.x} * kThreads, first = Index{blockIdx.x} * kThreads + threadIdx.x;
  for (Index p = first; p < packs; p += stride) {
    Pack<T> values = fetch<kWidth>(static_cast<const T*>(x) + p * kWidth);
#pragma unroll
    for (T& value : values.value) value = change(value);
    put<kWidth>(x + p * kWidth, values);
  }
  for (Index i = packs * kWidth + first; i < count; i += stride) x[i] = change(x[i]);
}

template <class T, class Change>
void change_in_place(std::string_view name, const Tensor& x, Change change, cudaStream_t stream) {
  const Index count = x.numel();
  if (count == 0) return;
  const Index packs = aligned(x.raw()) ? count / Pack<T>::kSize : 0;
  launch(name, in_place_kernel<T, Change>, blocks_for(count, Index{kThreads} * Pack<T>::kSize), kThreads, 0,
         stream, x.data<T>(), packs, count, change);
}

}  // namespace

void CudaBackend::note_loss(const Tensor& loss, const Tensor& scale) {
  ScaleState* const to = scale_of(scale);
  if (loss.dtype() == DType::f64) {
    launch("note_loss", note_loss_kernel<double>, 1, 1, 0, stream_, loss.data<double>(), to);
  } else {
    launch("note_loss", note_loss_kernel<float>, 1, 1, 0, stream_, loss.data<float>(), to);
  }
}

void CudaBackend::check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                                  const GradientCheck& rules, const Tensor& state, const Tensor& scale) {
  StepState* const step = state_of(state);
  const ScaleState* const from = rules.unscaled ? nullptr : scale_of(scale);
  const auto run = [&]<class T>(TypeTag<T>) {
    const T* const x = gradient.data<T>();
    for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
      if (chunk.pieces == 0) return;
      const unsigned blocks = blocks_for(chunk.pieces, 1);
      const Tensor memory = workspace(bytes_for<Gathered>(blocks), DType::u8);
      Gathered* const gathered = room<Gathered>(memory);
      launch("check_gradients", rules.magnitude ? check_kernel<T, true> : check_kernel<T, false>, blocks,
             kThreads, 0, stream_, chunk, x, aligned(x), rules.divisor, rules.unscaled, from, gathered);
      launch("check_gradients", gathered_kernel, 1, kThreads, 0, stream_, gathered, static_cast<int>(blocks),
             step, nullptr);
    });
  };
  gradient.dtype() == DType::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

void CudaBackend::unscale(const Tensor& gradient, std::span<const UpdateRange> ranges,
                          const UnscaleOptions& options, const Tensor& target, const Tensor& state,
                          const Tensor& scale) {
  ScaleState* const from = scale_of(scale);
  StepState* const step = state_of(state);
  const float* const x = gradient.data<float>();
  float* const y = target.data<float>();
  for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
    if (chunk.pieces == 0) return;
    const unsigned blocks = blocks_for(chunk.pieces, 1);
    const Tensor memory = workspace(bytes_for<Gathered>(blocks), DType::u8);
    Gathered* const gathered = room<Gathered>(memory);
    launch("unscale", unscale_kernel, blocks, kThreads, 0, stream_, chunk, x, y, aligned(x) && aligned(y),
           options.divisor, options.add, from, gathered);
    launch("unscale", gathered_kernel, 1, kThreads, 0, stream_, gathered, static_cast<int>(blocks), step,
           options.attribute ? from : nullptr);
  });
}

void CudaBackend::sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                           const Tensor& scale) {
  const ScaleState* const from = scale_of(scale);
  float* const x = gradient.data<float>();
  for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
    if (chunk.pieces == 0) return;
    launch("sanitize", sanitize_kernel, blocks_for(chunk.pieces, 1), kThreads, 0, stream_, chunk, x,
           aligned(x), floor, from);
  });
}

void CudaBackend::decide(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                         const Tensor& scale) {
  ensure(lr_table.numel() >= 2, "decide", "a table of learning rates has a base and an entry, got {}",
         to_string(lr_table));
  launch("decide", decide_kernel, 1, 1, 0, stream_, rules, lr_table.data<double>(), lr_table.numel() - 1,
         state_of(state), scale_of(scale));
}

void CudaBackend::update_scale(const ScaleRules& rules, const Tensor& scale) {
  launch("update_scale", update_scale_kernel, 1, 1, 0, stream_, rules, scale_of(scale));
}

void CudaBackend::update(const UpdateRule& rule, std::span<const UpdateRange> ranges,
                         const UpdateBuffers& buffers, const Tensor& state) {
  const StepState* const step = state_of(state);
  const Buffers p = buffers_of(buffers);
  std::int64_t* const counts = buffers.counts.data<std::int64_t>();
  const bool rounds = p.rounding.weights != DType::f32 || p.rounding.moments != DType::f32;
  const Pass pass = pass_of(rule, rounds);
  ensure((!(pass.moments & 1u) || p.moment1) && (!(pass.moments & 2u) || p.moment2) &&
             (!(pass.moments & 4u) || p.moment3),
         "update", "the rule needs a moment buffer that is absent");
  const bool lamb = rule.kind == UpdateKind::lamb, adapts = lamb || rule.kind == UpdateKind::lars;

  for_chunks(ranges, buffers.master.numel(), [&](const Chunk& chunk, std::span<const UpdateRange> part) {
    const Tensor memory = workspace(bytes_for<UpdateConstants>(chunk.ranges), DType::u8);
    UpdateConstants* const constants = room<UpdateConstants>(memory);
    const Settings settings = settings_of(chunk, part);
    launch("update", constants_kernel, 1, kConstantsThreads, 0, stream_, settings, rule, counts, step,
           constants);
    if (chunk.pieces == 0) return;
    const unsigned blocks = static_cast<unsigned>(chunk.pieces);
    if (adapts) {
      const Tensor sums = workspace(bytes_for<Squares>(chunk.pieces), DType::u8);
      Squares* const squares = room<Squares>(sums);
      launch("update", lamb ? squares_kernel<true> : squares_kernel<false>, blocks, kThreads, 0, stream_,
             chunk, p, constants, step, squares);
      launch("update", trust_kernel, static_cast<unsigned>(chunk.ranges), kThreads, 0, stream_, settings,
             rule, squares, step, constants);
    }
    launch("update", pass.kernel, blocks, kThreads, 0, stream_, chunk, p, constants, step);
  });
}

void CudaBackend::commit(const Tensor& source, const Tensor& target, const Tensor& state) {
  ensure(source.dtype() == target.dtype() && source.numel() == target.numel(), "commit", "{} beside {}",
         to_string(source), to_string(target));
  const Index count = static_cast<Index>(source.bytes());
  if (count == 0) return;
  const Index packs = aligned(source.raw()) && aligned(target.raw()) ? count / Bytes::kSize : 0;
  launch("commit", commit_kernel, blocks_for(packs != 0 ? packs : count), kThreads, 0, stream_,
         static_cast<std::uint8_t*>(source.raw()), static_cast<std::uint8_t*>(target.raw()), packs, count,
         state_of(state));
}

void CudaBackend::update_average(const Tensor& value, const Tensor& average, const AverageRule& rule,
                                 const Tensor& state) {
  ensure(value.numel() == average.numel(), "update_average", "{} beside {}", to_string(value),
         to_string(average));
  const Index count = value.numel();
  if (count == 0) return;
  const Index packs = aligned(value.raw()) && aligned(average.raw()) ? count / 4 : 0;
  launch("update_average", average_kernel, blocks_for(packs != 0 ? packs : count), kThreads, 0, stream_,
         value.data<float>(), average.data<float>(), packs, count, rule, state_of(state));
}

void CudaBackend::round_to(const Tensor& x, DType dtype) {
  ensure(x.dtype() == DType::f32 && is_16bit(dtype), "round_to", "{} to {}", to_string(x), name_of(dtype));
  change_in_place<float>("round_to", x, RoundTo{dtype}, stream_);
}

void CudaBackend::scale_and_limit(const Tensor& x, double factor, double limit) {
  if (x.dtype() == DType::f64) {
    change_in_place<double>("scale_and_limit", x, ScaleAndLimit<double>{factor, limit}, stream_);
  } else {
    const ScaleAndLimit<float> change{static_cast<float>(factor), static_cast<float>(limit)};
    change_in_place<float>("scale_and_limit", x, change, stream_);
  }
}

}  // namespace tandem::cuda
