// Matrices of one attention head as operands of products, and the products.
//
// A matrix of tokens [T,D] is packed once into rows, padded by zeros to multiples of kPanel, and from there
// into panels of kPanel columns: `turned` has the tokens as columns, `straight` the features. Neighbours
// along the depth of a product are adjacent (P::kDepth of row_products.h), so that one layout serves vectors
// and AMX tiles.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/cpu/kernels/amx.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/dropout_mask.h"
#include "core/cpu/kernels/row_products.h"
#include "core/cpu/kernels/softmax_rows.h"
#include "core/cpu/level.h"
#include "core/kernels/attention.h"
#include "core/kernels/attention_formulas.h"

namespace tandem::cpu::TANDEM_LEVEL {

inline constexpr int kPanelVectors = detail::kMostVectors > 1 ? 2 : 1;
inline constexpr Index kPanel = kPanelVectors * kLanes;

constexpr Index padded(Index n) { return (n + kPanel - 1) / kPanel * kPanel; }

// The tokens of one head of a tensor.
struct Head {
  std::byte* data;
  DType dtype;
  Index first, token;  // elements before token 0, and between tokens

  Head(const HeadRows& rows, Index text, Index head)
      : data(static_cast<std::byte*>(rows.tensor.raw())),
        dtype(rows.tensor.dtype()),
        first(rows.offset + text * rows.text + head * rows.head),
        token(rows.token) {}
  Index at(Index t) const { return first + t * token; }
};

template <class P>
struct HeadBlocks {
  using Storage = typename P::Storage;
  // Storage elements per word of 32 bits.
  static constexpr Index kWord = P::kDepth;
  static_assert(kWord * sizeof(Storage) == sizeof(std::uint32_t));

  // On the thread that multiplies. `tiles`: in AMX tiles.
  explicit HeadBlocks(bool tiles) {
#if defined(TANDEM_AMX)
    if (tiles) tiles_.emplace();
#else
    static_cast<void>(tiles);
#endif
  }

  // Rows [first, first + count) of a head, `width` wide: padded(count) × padded(width).
  static void pack(const Head& from, Index first, Index count, Index width, Storage* to) {
    const Index step = padded(width);
    float held[kBlock];
    Storage* row = to;
    for (Index t = first; t < first + count; ++t, row += step) {
      if (from.dtype == dtype_of<Storage>()) {
        copy(reinterpret_cast<const Storage*>(from.data) + from.at(t), row, width);
      } else {
        for (Index d = 0; d < width; d += kBlock) {
          const Index n = std::min(kBlock, width - d);
          load_block(from.data, from.dtype, from.at(t) + d, held, n);
          store_block(held, row + d, n);
        }
      }
      std::fill(row + width, row + step, Storage{});
    }
    std::fill(row, to + padded(count) * step, Storage{});
  }

  // For short rows, without a call.
  static void copy(const Storage* from, Storage* to, Index count) {
    Index i = 0;
    for (; i + kLanes <= count; i += kLanes) std::memcpy(to + i, from + i, kLanes * sizeof(Storage));
    for (; i < count; ++i) to[i] = from[i];
  }

  // Panels of tokens by features; extents are padded.
  static void turned(const Storage* rows, Index tokens, Index width, Storage* to) {
    const Index words = width / kWord;
    for (Index t = 0; t < tokens; t += kLanes) {
      Storage* panel = to + t / kPanel * kPanel * width + t % kPanel * kWord;
      for (Index w = 0; w < words; w += kLanes)
        transpose_words(rows + t * width + w * kWord, words, panel + w * kPanel * kWord, kPanel);
    }
  }

  // Panels of features by tokens; extents are padded.
  static void straight(const Storage* rows, Index tokens, Index width, Storage* to) {
    for (Index d = 0; d < width; d += kLanes) {
      Storage* panel = to + d / kPanel * kPanel * tokens + d % kPanel * kWord;
      for (Index t = 0; t < tokens; t += kWord, panel += kPanel * kWord)
        P::pair_rows(rows + t * width + d, width, panel);
    }
  }

  // The transposed matrix as rows [width, tokens], `step` apart, from its `straight` panels.
  static void turned_rows(const Storage* straight, Index tokens, Index width, Storage* to, Index step) {
    const Index words = tokens / kWord;
    for (Index d = 0; d < width; d += kLanes) {
      const Storage* panel = straight + d / kPanel * kPanel * tokens + d % kPanel * kWord;
      for (Index w = 0; w < words; w += kLanes)
        transpose_words(panel + w * kPanel * kWord, kPanel, to + d * step + w * kWord, step / kWord);
    }
  }

  // out[rows,columns] = a[rows,depth]·b, or += if `accumulate`. b: panels of `b_depth` elements, from element
  // `k` and column `c` on; depth and columns are multiples of kPanel. Tiles compute up to the next multiple
  // of 16 rows.
  void multiply(Index rows, Index columns, Index depth, const Storage* a, Index a_step, const Storage* b,
                Index b_depth, Index k, Index c, float* out, Index out_step, bool accumulate) const {
    const Storage* panel = b + c * b_depth + k * kPanel;
    for (Index done = 0; done < columns; done += kPanel, panel += kPanel * b_depth, out += kPanel) {
#if defined(TANDEM_AMX)
      if constexpr (kWord == 2) {
        if (tiles_) {
          for (Index r = 0; r < rows; r += 2 * kTile)
            multiply_tiles<2>(depth, rows - r, a + r * a_step, a_step, panel, 2 * kPanel, out + r * out_step,
                              out_step, accumulate);
          continue;
        }
      }
#endif
      detail::multiply_rows<P, kPanelVectors>(depth / kWord, rows, a, a_step, panel, out, out_step,
                                              accumulate);
    }
  }

#if defined(TANDEM_AMX)
 private:
  std::optional<AmxTiles> tiles_;
#endif
};

// Calls visit<P>(tiles) with the operands of products of tensors stored as `dtype`.
template <class Visitor>
void with_attention_operands([[maybe_unused]] DType dtype, const Visitor& visit) {
#if defined(TANDEM_SIMD_BF16_PAIRS)
  if (dtype == DType::bf16) return visit.template operator()<PairRows>(level() == Level::amx);
#endif
  visit.template operator()<FloatRows>(false);
}

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// 2^x for x <= 0, by minimax polynomials for 2^r, |r| <= 1/2: within 2^-28, or 2^-18 if the result is rounded
// to bf16. Below -124, where the result is negligible beside the 1 of the largest score, it is 2^-124.
template <class P>
TANDEM_HD Vec power_of_two_of(Vec x) {
  const Vec bounded = max(broadcast(-124.0f), x), bias = broadcast(kBias), biased = bounded + bias;
  const Vec r = bounded - (biased - bias);
  if constexpr (std::is_same_v<P, FloatRows>) {
    Vec p = broadcast(1.534581158e-04f);
    for (const float c :
         {1.339993122e-03f, 9.618488959e-03f, 5.550328777e-02f, 2.402264689e-01f, 6.931472057e-01f, 1.0f})
      p = fma(p, r, broadcast(c));
    return p * power_of_two(biased);
  } else {
    Vec p = broadcast(9.570101434e-03f);
    for (const float c : {5.591786028e-02f, 2.402474484e-01f, 6.931218147e-01f, 9.999992614e-01f})
      p = fma(p, r, broadcast(c));
    return p * power_of_two(biased);
  }
}
// The same, but 0 for -inf.
template <class P>
TANDEM_HD Vec power_of_two_or_zero(Vec x) {
  return select(exceeds(x, broadcast(-124.0f)), power_of_two_of<P>(x), zero());
}

// 0, 1, …, 15.
inline Vec ascending() {
  alignas(64) static constexpr float kNumbers[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                         8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// Keys that rows of queries see, as [lowest first, highest last) and the keys that all of them see.
struct SeenByRows {
  KeyRange any{}, all{};

  SeenByRows(const KeyRange* rows, Index count) {
    any = all = rows[0];
    bool none = true;
    for (Index r = 0; r < count; ++r) {
      const KeyRange seen = rows[r];
      all = {std::max(all.first, seen.first), std::min(all.last, seen.last)};
      if (seen.count() == 0) continue;
      any = none ? seen : KeyRange{std::min(any.first, seen.first), std::max(any.last, seen.last)};
      none = false;
    }
    if (none) any = {0, 0};
  }
};

// Memory of one thread, given out in aligned parts.
class Parts {
 public:
  explicit Parts(Index bytes) : memory_(workspace<std::uint8_t>({bytes + kAlignment})) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.raw());
    used_ = (kAlignment - at % kAlignment) % kAlignment;
  }
  template <class T>
  T* take(Index count) {
    T* part = reinterpret_cast<T*>(static_cast<std::byte*>(memory_.raw()) + used_);
    used_ += bytes_of<T>(count);
    ensure(used_ <= memory_.bytes(), "attention", "workspace of {} bytes is too small", memory_.bytes());
    return part;
  }
  template <class T>
  static Index bytes_of(Index count) {
    return (count * Index(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  static constexpr Index kAlignment = 64;
  Tensor memory_;
  std::size_t used_ = 0;
};

}  // namespace tandem::cpu::TANDEM_LEVEL
