// A part of the result is one thread's, without barriers. Its operands are packed into squares of 32 × 32:
// those of a for a block of rows that fills half of the second cache, those of b for 32 columns at a time.
#include "core/cpu/kernels/matmul_tiles.h"

#if defined(TANDEM_AMX)
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/cpu/kernels/bf16_parts.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kSide = 2 * kTile;        // of a square
constexpr Index kSquare = kSide * kSide;  // its elements
constexpr Index kDepth = 512;             // largest k of a block
constexpr Index kPackedA = 384 * 1024;    // most elements of a's block
constexpr Index kColumns = 1024;          // most columns of a block
constexpr Index kPackedB = 256 * 1024;    // most elements of b that are packed at once

constexpr Index squares(Index n) { return (n + kSide - 1) / kSide; }

// rows × columns of a matrix, 32 at most; the rest of the square counts as 0.
template <class S>
struct Square {
  const S* data;
  Index step;  // elements between rows
  Index rows, columns;

  // All of a part, with zeros, for code that reads whole squares: as it is if that is possible.
  template <int part>
  Square<BFloat16> whole(BFloat16* held) const {
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (rows == kSide && columns == kSide && step % 2 == 0) return *this;
    }
    const auto lanes = [&](Index c) { return static_cast<int>(std::clamp<Index>(columns - c, 0, kLanes)); };
    const int first = lanes(0), second = lanes(kLanes);
    for (Index r = 0; r < rows; ++r) {
      const S* from = data + r * step;
      BFloat16* to = held + r * kSide;
      store_words(to, first_part<part>(from, first));
      store_words(to + kLanes, first_part<part>(from + kLanes, second));
    }
    std::fill(held + rows * kSide, held + kSquare, BFloat16{});
    return {held, kSide, kSide, kSide};
  }

 private:
  // A part of `count` values, and zeros.
  template <int part>
  static __m256i first_part(const S* p, int count) {
    const __m256i bits = _mm256_maskz_loadu_epi16(detail::first(count), p);
    if constexpr (std::is_same_v<S, BFloat16>) return bits;
    return part_of_values<part>({detail::widen(bits, S{})});
  }
};

// Pairs of rows: to[16][32][2].
void pair_rows(const Square<BFloat16>& from, BFloat16* to) {
  for (Index r = 0; r < kSide; r += 2)
    for (Index c = 0; c < kSide; c += kLanes)
      store_pairs(reinterpret_cast<std::uint32_t*>(to + r * kSide + 2 * c),
                  load_pairs(from.data + r * from.step + c, from.data + (r + 1) * from.step + c));
}

// A square of a: rows along m, k adjacent.
void pack_left(const Square<BFloat16>& from, bool transposed, BFloat16* to) {
  if (transposed) {
    alignas(64) BFloat16 pairs[kSquare];
    pair_rows(from, pairs);
    transpose_words(pairs, kSide, to, kTile);
    transpose_words(pairs + kSide, kSide, to + kSquare / 2, kTile);
  } else if (from.data != to) {
    for (Index r = 0; r < kSide; ++r)
      std::memcpy(to + r * kSide, from.data + r * from.step, kSide * sizeof *to);
  }
}

// A square of b: pairs along k.
void pack_right(const Square<BFloat16>& from, bool transposed, BFloat16* to) {
  if (!transposed) return pair_rows(from, to);
  transpose_words(from.data, from.step / 2, to, kSide);
  transpose_words(from.data + kTile * from.step, from.step / 2, to + kSide, kSide);
}

// A block of 32 rows of a: `square` elements from one square to the next along k, `step` from row to row.
struct Left {
  const BFloat16* data;
  Index step, square;
};

// Starts and ends of sums in tiles 0 to 3: out[32,32].
TANDEM_AMX_CODE void begin_sums(const float* out, bool accumulate) {
  constexpr long kOut = kSide * long(sizeof(float));
  asm volatile("" ::: "memory");  // GCC does not know the memory of its intrinsics
  if (accumulate) {
    _tile_loadd(0, out, kOut);
    _tile_loadd(1, out + kTile, kOut);
    _tile_loadd(2, out + kTile * kSide, kOut);
    _tile_loadd(3, out + kTile * kSide + kTile, kOut);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
}
TANDEM_AMX_CODE void end_sums(float* out) {
  constexpr long kOut = kSide * long(sizeof(float));
  _tile_stored(0, out, kOut);
  _tile_stored(1, out + kTile, kOut);
  _tile_stored(2, out + kTile * kSide, kOut);
  _tile_stored(3, out + kTile * kSide + kTile, kOut);
  asm volatile("" ::: "memory");
}

// Adds a·b over `count` squares of each to the tiles of sums. Of a, the first 16 rows if !both.
TANDEM_AMX_CODE void add_squares(Index count, bool both, const Left& left, const BFloat16* b) {
  constexpr long kB = 2 * kSide * long(sizeof(BFloat16));
  const long step = left.step * long(sizeof(BFloat16));
  const BFloat16 *a = left.data, *lower = a + kTile * left.step;
  if (both) {
    for (Index k = 0; k < count; ++k, a += left.square, lower += left.square, b += kSquare) {
      _tile_loadd(6, b, kB);
      _tile_loadd(4, a, step);
      _tile_loadd(7, b + kSide, kB);
      _tile_loadd(5, lower, step);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  } else {
    for (Index k = 0; k < count; ++k, a += left.square, b += kSquare) {
      _tile_loadd(6, b, kB);
      _tile_loadd(4, a, step);
      _tile_loadd(7, b + kSide, kB);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
}

template <class S>
class Multiplier {
 public:
  Multiplier(const onednn::Matmul& p, const S* a, const S* b, const float* bias, void* c)
      : p_(p),
        a_(a),
        b_(b),
        bias_(bias),
        c_(c),
        in_place_(kParts<S> == 1 && !p.transpose_a && p.lda % kSide == 0 && p.k % kSide == 0 &&
                  reinterpret_cast<std::uintptr_t>(a) % 64 == 0),
        depth_(std::min(squares(p.k) * kSide, kDepth)),
        rows_(kPackedA / kParts<S> / depth_ / kSide * kSide),
        group_(std::min(kPackedB / kParts<S> / depth_ / kSide * kSide, kColumns)) {}

  // Rows m and columns n of c.
  void run(Range m, Range n) {
    const Index rows = std::min(in_place_ && p_.k <= kDepth ? p_.m : rows_, squares(m.count()) * kSide),
                columns = std::min(kColumns, squares(n.count()) * kSide);
    part_of_a_ = (in_place_ ? kSide : rows) * depth_;
    part_of_b_ = std::min(group_, columns) * depth_;
    packed_a_ = workspace<BFloat16>({kParts<S> * part_of_a_});
    packed_b_ = workspace<BFloat16>({kParts<S> * part_of_b_});
    sums_ = workspace<float>({p_.k > kDepth ? rows * columns : 2 * kSquare});
    for (Index j = n.first; j < n.last; j += columns)
      for (Index i = m.first; i < m.last; i += rows)
        block({i, std::min(i + rows, m.last)}, {j, std::min(j + columns, n.last)});
  }

 private:
  // A square of sums that is yet to be stored.
  struct Sums {
    const float* data = nullptr;
    Index row, column;
  };

  void block(Range m, Range n) {
    BFloat16 *const a = packed_a_.data<BFloat16>(), *const b = packed_b_.data<BFloat16>();
    for (Index k = 0; k < p_.k; k += kDepth) {
      const Range depth{k, std::min(k + kDepth, p_.k)};
      const Index count = squares(depth.count());
      // Of rows that are used in place, a last block of fewer than 32 is packed.
      const Range packed{in_place_ ? m.first + m.count() / kSide * kSide : m.first, m.last};
      over_squares(packed, depth, p_.transpose_a, [&](Index i, Index d, Index at) {
        const auto square = square_of(a_, p_.lda, i, m.last, d, depth.last, p_.transpose_a);
        over_parts([&]<int part>() {
          alignas(64) BFloat16 held[kSquare];
          BFloat16* const to = a + part * part_of_a_ + at;
          pack_left(square.template whole<part>(p_.transpose_a ? held : to), p_.transpose_a, to);
        });
      });
      for (Index j = n.first; j < n.last; j += group_) {
        const Range group{j, std::min(j + group_, n.last)};
        over_squares(group, depth, !p_.transpose_b, [&](Index column, Index d, Index at) {
          const auto square = square_of(b_, p_.ldb, d, depth.last, column, n.last, p_.transpose_b);
          over_parts([&]<int part>() {
            alignas(64) BFloat16 held[kSquare];
            pack_right(square.template whole<part>(held), p_.transpose_b, b + part * part_of_b_ + at);
          });
        });
        Sums last;  // stored while tiles multiply
        for (Index i = m.first; i < m.last; i += kSide) {
          const auto left = [&]([[maybe_unused]] int part) {
            if constexpr (kParts<S> == 1)
              if (i < packed.first) return Left{a_ + i * p_.lda + k, p_.lda, kSide};
            return Left{a + part * part_of_a_ + (i - packed.first) * count * kSide, kSide, kSquare};
          };
          for (Index c = group.first; c < group.last; c += kSide) {
            float* sums = sums_.data<float>();
            if (p_.k > kDepth) {
              sums += ((i - m.first) / kSide * squares(n.count()) + (c - n.first) / kSide) * kSquare;
            } else if (last.data == sums) {
              sums += kSquare;
            }
            begin_sums(sums, k > 0);
            for (const auto& [part, other] : std::span(kPartProducts).first(kProducts<S>))
              add_squares(count, m.last - i > kTile, left(part),
                          b + other * part_of_b_ + (c - j) * count * kSide);
            end_sums(sums);
            if (depth.last < p_.k) continue;
            if (last.data != nullptr) put(last, m, n);
            last = {sums, i, c};
          }
        }
        if (last.data != nullptr) put(last, m, n);
      }
    }
  }

  // Calls visit(x, d, at) for the squares of a panel for each 32 of `extent`, stored one after the other at
  // `at`. d runs last if `across`: the order in which memory holds the operand.
  template <class Visitor>
  static void over_squares(Range extent, Range depth, bool across, const Visitor& visit) {
    const Index high = squares(extent.count()), count = squares(depth.count());
    for (Index s = 0; s < high * count; ++s) {
      const Index x = across ? s % high : s / count, d = across ? s / high : s % count;
      visit(extent.first + x * kSide, depth.first + d * kSide, (x * count + d) * kSquare);
    }
  }

  template <class Visitor>
  static void over_parts(const Visitor& visit) {
    visit.template operator()<0>();
    if constexpr (kParts<S> == 2) visit.template operator()<1>();
  }

  // Rows from `row` to `rows`, columns from `column` to `columns` of a matrix that may be stored transposed.
  static Square<S> square_of(const S* from, Index step, Index row, Index rows, Index column, Index columns,
                             bool transposed) {
    const Index height = std::min(kSide, rows - row), width = std::min(kSide, columns - column);
    if (transposed) return {from + column * step + row, step, width, height};
    return {from + row * step + column, step, height, width};
  }

  void put(const Sums& sums, Range m, Range n) const {
    const Index rows = std::min(kSide, m.last - sums.row), columns = std::min(kSide, n.last - sums.column);
    const float* from = sums.data;
    const auto lanes = [&](Index c) { return static_cast<int>(std::clamp<Index>(columns - c, 0, kLanes)); };
    const int first = lanes(0), second = lanes(kLanes);
    Vec offset[2] = {zero(), zero()};
    if (bias_ != nullptr) {
      offset[0] = load_first(bias_ + sums.column, first);
      offset[1] = load_first(bias_ + sums.column + kLanes, second);
    }
    for (Index r = 0; r < rows; ++r, from += kSide) {
      const Index at = (sums.row + r) * p_.ldc + sums.column;
      const Vec x = load(from) + offset[0], y = load(from + kLanes) + offset[1];
      if (p_.result == DType::f32) {
        put_row(static_cast<float*>(c_) + at, x, y, first, second);
      } else {
        put_row(static_cast<S*>(c_) + at, x, y, first, second);
      }
    }
  }

  template <class R>
  void put_row(R* to, Vec x, Vec y, int first, int second) const {
    if (p_.accumulate) {
      x = x + load_first(to, first);
      y = y + load_first(to + kLanes, second);
    }
    store_first(to, x, first);
    store_first(to + kLanes, y, second);
  }

  const onednn::Matmul& p_;
  const S *a_, *b_;
  const float* bias_;
  void* c_;
  bool in_place_;  // rows of a are left operands as they are
  Index depth_, rows_, group_;
  Index part_of_a_ = 0, part_of_b_ = 0;  // elements of a part of the packed operands
  AmxTiles tiles_;
  Tensor packed_a_, packed_b_, sums_;
};

}  // namespace

void multiply_in_tiles(const onednn::Matmul& p, const void* a, const void* b, const float* bias, void* c) {
  constexpr Index kShare = Index{1} << 25;  // fewest multiplications of a share, if threads have several
  const Index high = squares(p.m), wide = squares(p.n), products = p.m * p.n * p.k;
  const int team = products < kShare / 8 ? 1 : threads();
  const Index most = std::clamp<Index>(products / kShare, team, shares_of(team)) / team * team;
  // The parts of c with the shortest sides, since both are packed.
  Index rows = 1, columns = 1;
  const auto side = [&](Index r, Index n) { return (high + r - 1) / r + (wide + n - 1) / n; };
  for (Index r = 1; r <= most; ++r)
    if (most % r == 0 && side(r, most / r) <= side(rows, columns)) rows = r, columns = most / r;
  if (rows * columns < most) rows = 1, columns = most;
  const auto multiply = [&]<class S>(const S* left, const S* right) {
    over_shares(team, rows * columns, [&](int) {
      return [&, multiplier = std::make_unique<Multiplier<S>>(p, left, right, bias, c)](Index share) {
        const auto part = [](Index extent, Index k, Index parts) {
          const Range those = part_of(squares(extent), k, parts);
          return Range{those.first * kSide, std::min(extent, those.last * kSide)};
        };
        const Range m = part(p.m, share / columns, rows), n = part(p.n, share % columns, columns);
        if (m.count() > 0 && n.count() > 0) multiplier->run(m, n);
      };
    });
  };
  if (p.dtype == DType::f16) return multiply(static_cast<const Half*>(a), static_cast<const Half*>(b));
  multiply(static_cast<const BFloat16*>(a), static_cast<const BFloat16*>(b));
}

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
