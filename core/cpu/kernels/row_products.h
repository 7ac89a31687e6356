// Repeated products of few rows with one matrix: out[n][c] = Σ_k a[n][k]·w[k][c]. The matrix is packed once
// into panels of columns, whose sums stay in registers. A thread computes whole panels, so results do not
// depend on the number of threads. Sums run over k in order, in the arithmetic type; bf16 is multiplied in
// AMX tiles or in pairs if the CPU can (amx.h, simd.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "core/cpu/kernels/amx.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/gemm.h"
#include "core/cpu/level.h"
#include "core/cpu/parallel.h"
#include "core/tensor.h"

namespace tandem::cpu::TANDEM_LEVEL {

// Position of the product's columns in a row-major matrix of weights [rows, columns].
enum class Columns : std::uint8_t {
  rows,     // column c is row c of the matrix: a·wᵀ; gates are adjacent, see RowProducts
  columns,  // column c is column c of the matrix: a·w
};

// Storage of operands and panels; kDepth neighbours along k are multiplied at once.
struct FloatRows {
  using Storage = float;
  static constexpr Index kDepth = 1;
  static Vec load(const float* p) { return TANDEM_LEVEL::load(p); }
  static Vec broadcast(const float* p) { return TANDEM_LEVEL::broadcast(*p); }
  static Vec multiply_add(Vec a, Vec b, Vec sum) { return fma(a, b, sum); }
  // Sixteen operands.
  static void store(float* p, Vec a) { TANDEM_LEVEL::store(p, a); }
  // to[lane][depth] = rows[depth][lane], for kDepth rows of 16, `step` apart.
  static void interleave(const float (*rows)[kLanes], float* to) { pair_rows(rows[0], kLanes, to); }
  static void pair_rows(const float* rows, Index, float* to) { store(to, TANDEM_LEVEL::load(rows)); }
};

#if defined(TANDEM_SIMD_BF16_PAIRS)
struct PairRows {
  using Storage = BFloat16;
  static constexpr Index kDepth = 2;
  static Pairs load(const BFloat16* p) {
    return load_pairs(
        reinterpret_cast<const std::uint32_t*>(p));  // the intrinsic reads bytes, so types do not alias
  }
  static Pairs broadcast(const BFloat16* p) {
    std::uint32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return broadcast_pair(pair);
  }
  static Vec multiply_add(Pairs a, Pairs b, Vec sum) { return dot(a, b, sum); }
  static void store(BFloat16* p, Vec a) { store_factors(p, a); }
  static void interleave(const BFloat16 (*rows)[kLanes], BFloat16* to) { pair_rows(rows[0], kLanes, to); }
  static void pair_rows(const BFloat16* rows, Index step, BFloat16* to) {
    store_pairs(reinterpret_cast<std::uint32_t*>(to), load_pairs(rows, rows + step));
  }
};
#endif

namespace detail {

#if defined(TANDEM_SIMD_AVX512)
inline constexpr int kMostVectors = 4;  // vectors of columns per tile
inline constexpr int kSumRegisters = 24;
#elif defined(TANDEM_SIMD_AVX2)
inline constexpr int kMostVectors = 1;
inline constexpr int kSumRegisters = 6;
#else
inline constexpr int kMostVectors = 1;
inline constexpr int kSumRegisters = 2;
#endif

// Bytes of a panel that multiply all rows before the next bytes are read; they stay in L1.
inline constexpr Index kHotBytes = 16 * 1024;

// R rows by V·16 columns. `depth` counts elements of kDepth. Unless `first`, sums continue from `out`.
template <class P, int R, int V>
void row_tile(Index depth, const typename P::Storage* a, Index a_step, const typename P::Storage* w,
              float* out, Index out_step, bool first) {
  Vec sum[R][V];
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
      sum[r][v] = first ? zero() : TANDEM_LEVEL::load(out + r * out_step + v * kLanes);
  }
#pragma GCC unroll 1
  for (Index k = 0; k < depth; ++k, a += P::kDepth, w += V * kLanes * P::kDepth) {
    decltype(P::load(w)) column[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) column[v] = P::load(w + v * kLanes * P::kDepth);
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
      const auto value = P::broadcast(a + r * a_step);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = P::multiply_add(value, column[v], sum[r][v]);
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(out + r * out_step + v * kLanes, sum[r][v]);
  }
}

template <class P>
using RowTile = void (*)(Index, const typename P::Storage*, Index, const typename P::Storage*, float*, Index,
                         bool);

// Tiles of 1, 2, … rows, up to the number that leaves registers for V columns and a factor.
template <class P, int V>
constexpr auto row_tiles() {
  constexpr int kRows = kSumRegisters / V;
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<RowTile<P>, sizeof...(I)>{&row_tile<P, static_cast<int>(I) + 1, V>...};
  }
  (std::make_index_sequence<static_cast<std::size_t>(kRows)>());
}

// All rows in equal shares, because tiles of few rows are bound by latency. With several shares, each part of
// the panel multiplies all of them before the next part is read; sums still run over k in order, from `out`
// on if `accumulate`.
template <class P, int V>
void multiply_rows(Index depth, Index rows, const typename P::Storage* a, Index a_step,
                   const typename P::Storage* w, float* out, Index out_step, bool accumulate = false) {
  static constexpr auto kTiles = row_tiles<P, V>();
  constexpr auto kMost = static_cast<Index>(kTiles.size());
  constexpr Index kElement = V * kLanes * P::kDepth;
  constexpr Index kHot = kHotBytes / (kElement * Index(sizeof(typename P::Storage)));
  const Index part = rows > kMost ? kHot : depth;
  for (Index k = 0; k < depth; k += part) {
    const Index count = std::min(part, depth - k);
    for (Index row = 0; row < rows;) {
      const Index left = rows - row, shares = (left + kMost - 1) / kMost, tile = (left + shares - 1) / shares;
      kTiles[static_cast<std::size_t>(tile - 1)](count, a + row * a_step + k * P::kDepth, a_step,
                                                 w + k * kElement, out + row * out_step, out_step,
                                                 k == 0 && !accumulate);
      row += tile;
    }
  }
}

}  // namespace detail

// The packed matrix. Columns form `gates` runs of equal length; a panel holds the same `width()` columns of
// each: out[n·step + gate·gate_step() + c].
template <class P>
class RowProducts {
 public:
  using Value = float;
  using Storage = typename P::Storage;

  // `weights`: row-major, stored as S, with `depth`·`columns` elements; `columns` counts those of all gates.
  template <class S>
  RowProducts(const S* weights, Index depth, Index columns, Index gates, Columns order, int team)
      : tiles_(P::kDepth == 2 && level() == Level::amx),
        depth_((depth + P::kDepth - 1) / P::kDepth),
        run_(columns / gates),
        gates_(gates),
        vectors_(gates > 1 ? 1 : best_width(run_, team)),
        panels_((run_ + width() - 1) / width()) {
    if (tiles_) depth_ = (depth_ + kTilePairs - 1) / kTilePairs * kTilePairs;
    memory_ = workspace<Storage>({panels_ * panel_size()});
    Storage* to = memory_.data<Storage>();
    parallel_for(team > 1, panels_, [&](Index panel) {
      pack(weights, depth, columns, order, panel, to + panel * panel_size());
    });
  }

  // State of a thread while it multiplies rows.
#if defined(TANDEM_AMX)
  using Session = std::optional<AmxTiles>;
  void begin(Session& session, Index rows) const {
    if (!tiles_) return;
    const bool few = rows <= 2 * kTile;
    session.emplace(few ? std::min(rows, kTile) : kTile, few && rows > kTile ? rows - kTile : kTile);
  }
#else
  struct Session {};
  void begin(Session&, Index) const {}
#endif
  // Rows of memory that operands and results of `rows` rows need.
  Index padded_rows(Index rows) const {
    return tiles_ ? (rows + kTileRows - 1) / kTileRows * kTileRows : rows;
  }

  Index panels() const { return panels_; }
  Index width() const { return vectors_ * kLanes; }
  Index gate_step() const { return width(); }
  // Storage elements per operand row; those beyond the depth are 0.
  Index operand_step() const { return depth_ * P::kDepth; }
  // Floats per result row.
  Index out_step() const { return gates_ * width(); }
  // Columns per gate of a panel.
  Range columns(Index panel) const { return {panel * width(), std::min(run_, (panel + 1) * width())}; }

  // a [rows][operand_step()], out [rows][out_step()], in a session for these rows.
  void multiply(Index panel, Index rows, const Storage* a, float* out) const {
    const Storage* w = memory_.data<Storage>() + panel * panel_size();
    const Index all = gates_ * vectors_;
    for (Index v = 0; v < all;) {
      const int n = tile_width(all - v);
#if defined(TANDEM_AMX)
      if constexpr (P::kDepth == 2) {
        if (tiles_) {
          multiply_in_tiles(n, rows, a, w, out + v * kLanes);
          w += operand_step() * n * kLanes;
          v += n;
          continue;
        }
      }
#endif
      with_width(n, [&]<int V>() {
        detail::multiply_rows<P, V>(depth_, rows, a, operand_step(), w, out + v * kLanes, out_step());
      });
      w += operand_step() * n * kLanes;
      v += n;
    }
  }

 private:
  static constexpr Index kTileRows = 16, kTilePairs = 16;

#if defined(TANDEM_AMX)
  // `columns` vectors of columns that are packed together.
  void multiply_in_tiles(Index columns, Index rows, const BFloat16* a, const BFloat16* w, float* out) const {
    const Index depth = operand_step(), w_step = columns * kLanes * 2;
    for (Index r = 0; r < rows; r += 2 * kTile) {
      const BFloat16* left = a + r * depth;
      float* to = out + r * out_step();
      Index c = 0;
      for (; c + 2 <= columns; c += 2)
        multiply_tiles<2>(depth, rows - r, left, depth, w + c * kLanes * 2, w_step, to + c * kLanes,
                          out_step(), false);
      if (c < columns)
        multiply_tiles<1>(depth, rows - r, left, depth, w + c * kLanes * 2, w_step, to + c * kLanes,
                          out_step(), false);
    }
  }
#endif

  static int tile_width(Index left) { return static_cast<int>(std::min<Index>(left, detail::kMostVectors)); }
  template <class Call>
  static void with_width(int n, Call&& call) {
    if constexpr (detail::kMostVectors > 1) {
      if (n == 4) return call.template operator()<4>();
      if (n == 3) return call.template operator()<3>();
      if (n == 2) return call.template operator()<2>();
    }
    call.template operator()<1>();
  }
  // The width that minimises the work of the busiest of `team` threads. Among widths within 5%, the widest
  // wins, because its tiles load less per product.
  static Index best_width(Index run, int team) {
    const auto busiest = [&](Index v) { return (run + v * kLanes * team - 1) / (v * kLanes * team) * v; };
    Index best = 1;
    for (Index v = 2; v <= detail::kMostVectors; ++v) {
      if (busiest(v) * 20 <= busiest(best) * 21) best = v;
    }
    return best;
  }
  Index panel_size() const { return operand_step() * gates_ * vectors_ * kLanes; }

  // Packs as [tile][element][column]; an element holds kDepth neighbours along k.
  template <class S>
  void pack(const S* weights, Index depth, Index columns, Columns order, Index panel, Storage* to) const {
    const Index all = gates_ * vectors_;
    for (Index v = 0; v < all;) {
      const int n = tile_width(all - v);
      for (int i = 0; i < n; ++i) {
        // Vector v + i holds 16 columns of one gate.
        const Index gate = gates_ > 1 ? v + i : 0;
        const Index first = panel * width() + (gates_ > 1 ? 0 : (v + i) * kLanes);
        const Index count = std::clamp<Index>(run_ - first, 0, kLanes);
        Storage* lanes = to + i * kLanes * P::kDepth;
        if (order == Columns::rows) {
          turn(weights + (gate * run_ + first) * depth, depth, count, lanes, n * kLanes * P::kDepth);
        } else {
          copy(weights + gate * run_ + first, columns, depth, count, lanes, n * kLanes * P::kDepth);
        }
        for (Index k = (depth + P::kDepth - 1) / P::kDepth; k < depth_; ++k)
          std::fill_n(lanes + k * n * kLanes * P::kDepth, kLanes * P::kDepth, Storage{});
      }
      to += operand_step() * n * kLanes;
      v += n;
    }
  }

  // Adjacent values of one lane.
  using Element = std::array<Storage, P::kDepth>;

  // to[k][lane] = from[lane][k], in blocks that fit in L1.
  template <class S>
  void turn(const S* from, Index depth, Index count, Storage* to, Index step) const {
    constexpr Index kRun = kLanes * P::kDepth;
    alignas(64) Element held[kLanes][kLanes] = {};
    for (Index k = 0; k < depth; k += kRun) {
      const Index run = std::min(kRun, depth - k), elements = (run + P::kDepth - 1) / P::kDepth;
      for (Index lane = 0; lane < count; ++lane) {
        if (run < kRun) std::fill_n(held[lane], kLanes, Element{});
        take(from + lane * depth + k, held[lane][0].data(), run);
      }
      for (Index e = 0; e < elements; ++e, to += step) {
        for (Index lane = 0; lane < kLanes; ++lane)
          std::memcpy(to + lane * P::kDepth, &held[lane][e], sizeof(Element));
      }
    }
  }

  // to[k][lane] = from[k][lane].
  template <class S>
  void copy(const S* from, Index row, Index depth, Index count, Storage* to, Index step) const {
    Storage held[P::kDepth][kLanes] = {};
    for (Index k = 0; k < depth; k += P::kDepth, to += step) {
      for (Index d = 0; d < P::kDepth; ++d) {
        if (k + d < depth) {
          take(from + (k + d) * row, held[d], count);
        } else {
          std::fill_n(held[d], kLanes, Storage{});
        }
      }
      P::interleave(held, to);
    }
  }

  template <class S>
  static void take(const S* from, Storage* to, Index count) {
    Index i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
    if (i < count) {
      const auto rest = static_cast<int>(count - i);
      store_first(to + i, load_first(from + i, rest), rest);
    }
  }

  bool tiles_;   // products in AMX tiles, whose depth is a multiple of 32
  Index depth_;  // in units of kDepth
  Index run_, gates_, vectors_, panels_;
  Tensor memory_;
};

// f64 products by Eigen: one panel, the unpacked matrix.
class DoubleRowProducts {
 public:
  using Value = double;
  using Storage = double;

  DoubleRowProducts(const double* weights, Index depth, Index columns, Index gates, Columns order, int)
      : weights_(weights), depth_(depth), all_(columns), run_(columns / gates), order_(order) {}

  struct Session {};
  void begin(Session&, Index) const {}
  Index padded_rows(Index rows) const { return rows; }

  Index panels() const { return 1; }
  Index width() const { return run_; }
  Index gate_step() const { return run_; }
  Index operand_step() const { return depth_; }
  Index out_step() const { return all_; }
  Range columns(Index) const { return {0, run_}; }

  void multiply(Index, Index rows, const double* a, double* out) const {
    const bool turned = order_ == Columns::rows;
    gemm(rows, all_, depth_, Operand<double>{a, depth_},
         Operand<double>{weights_, turned ? depth_ : all_, turned}, out, all_, false);
  }

 private:
  const double* weights_;
  Index depth_, all_, run_;
  Columns order_;
};

// The product class for weights stored as S.
template <class S>
struct RowProductsOf {
  using type = RowProducts<FloatRows>;
};
template <>
struct RowProductsOf<double> {
  using type = DoubleRowProducts;
};
#if defined(TANDEM_SIMD_BF16_PAIRS)
template <>
struct RowProductsOf<BFloat16> {
  using type = RowProducts<PairRows>;
};
#endif

// Calls each(part) for the parts of [0, team) in parallel, on threads that may call products.multiply(). A
// part tends to run on the same thread every time.
template <class Products, class Each>
void in_parts(const Products& products, int team, Index rows, const Each& each) {
  with_shares(team, team, [&](Shares& shares) {
    typename Products::Session session;
    products.begin(session, rows);
    for (Index part; shares.next(part);) each(part);
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
