#include "core/cpu/kernels/matmul_library.h"

#include <algorithm>
#include <array>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/guard.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Matmul;
using onednn::Primitive;

namespace {

// Fewest multiplications of a part, about 5 µs.
constexpr Index kProductsOfPart = Index{1} << 18;
// Blocks of oneDNN's kernels, in any type and at any level.
constexpr Index kRowBlock = 32, kColumnBlock = 64;

Index blocks_in(Index extent, Index block) { return (extent + block - 1) / block; }

int team_for(const Matmul& p) {
  return static_cast<int>(std::clamp<Index>(p.batch * p.m * p.n * p.k / kProductsOfPart, 1, threads()));
}

}  // namespace

ProductParts::ProductParts(const Matmul& problem, int team, Shape shape, Index rows, Index columns)
    : p_(problem), row_block_(rows), column_block_(columns) {
  if (p_.batch > 1) {
    batches_ = std::min<Index>(p_.batch, team);
    return;
  }
  const Index most_rows = blocks_in(p_.m, rows), most_columns = blocks_in(p_.n, columns);
  // The most parts, and among divisions into as many the best shape.
  const auto cost = [&](Index r, Index c) { return shape == Shape::rows ? c : p_.m / r + p_.n / c; };
  for (Index c = 1; c <= std::min<Index>(team, most_columns); ++c) {
    const Index r = std::min<Index>(team / c, most_rows);
    const bool more = r * c > rows_ * columns_, as_many = r * c == rows_ * columns_;
    if (more || (as_many && cost(r, c) < cost(rows_, columns_))) rows_ = r, columns_ = c;
  }
}

ProductParts::Part ProductParts::part(Index index) const {
  const auto range = [](Index extent, Index block, Index k, Index parts) {
    const Range blocks = part_of(blocks_in(extent, block), k, parts);
    return Range{blocks.first * block, std::min(extent, blocks.last * block)};
  };
  if (batches_ > 1) return {part_of(p_.batch, index, batches_), {0, p_.m}, {0, p_.n}};
  return {{0, p_.batch},
          range(p_.m, row_block_, index / columns_, rows_),
          range(p_.n, column_block_, index % columns_, columns_)};
}

LibraryProduct::LibraryProduct(const Matmul& problem)
    : p_(problem),
      team_(team_for(problem)),
      parts_(problem, team_, ProductParts::Shape::rows, kRowBlock, kColumnBlock) {
  std::vector<std::array<Index, 3>> sizes;
  for (Index i = 0; i < parts_.count(); ++i) {
    const auto [batch, m, n] = parts_.part(i);
    const std::array<Index, 3> size{batch.count(), m.count(), n.count()};
    const auto known = std::ranges::find(sizes, size);
    size_of_part_.push_back(static_cast<std::size_t>(known - sizes.begin()));
    if (known != sizes.end()) continue;
    sizes.push_back(size);
    Matmul part = p_;
    part.batch = size[0];
    part.m = size[1];
    part.n = size[2];
    Primitives& same = primitives_.emplace_back();
    same.push_back(onednn::matmul(part));
    for (int thread = 1; thread < team_; ++thread) same.push_back(same.front()->twin());
  }
}

void LibraryProduct::run(const void* a, const void* b, const void* bias, void* c) const {
  const auto at = [](const void* from, Index elements, DType dtype) {
    return static_cast<const std::byte*>(from) + elements * static_cast<Index>(size_of(dtype));
  };
  // With guards on, a primitive copies its output whole, with the columns of other parts between its own.
  const int team = guard::on() ? 1 : team_;
  over_shares(team, parts_.count(), [&](int thread) {
    return [&, thread](Index i) {
      const auto [batch, m, n] = parts_.part(i);
      const Primitive& primitive =
          *primitives_[size_of_part_[static_cast<std::size_t>(i)]][static_cast<std::size_t>(thread)];
      const void* left = at(a, batch.first * p_.stride_a + m.first * (p_.transpose_a ? 1 : p_.lda), p_.dtype);
      const void* right =
          at(b, batch.first * p_.stride_b + n.first * (p_.transpose_b ? p_.ldb : 1), p_.dtype);
      const void* out = at(c, (batch.first * p_.m + m.first) * p_.ldc + n.first, p_.result);
      if (bias) {
        primitive.run({left, right, at(bias, n.first, DType::f32), out});
      } else {
        primitive.run({left, right, out});
      }
    };
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
