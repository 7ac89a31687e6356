// oneDNN's matrix products in parts, one or more per thread, each by a single-threaded primitive. A part has
// the whole sums of its elements, so no part waits for another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpu/kernels/shares.h"
#include "core/cpu/onednn.h"

namespace tandem::cpu::TANDEM_LEVEL {

// Parts of c: ranges of the batch, or of the rows and columns of a single product.
class ProductParts {
 public:
  // How to divide a single product: parts of about the same extents read least; if a part packs all columns
  // that it needs of b, parts by rows also write whole lines.
  enum class Shape : std::uint8_t { square, rows };
  // At most `team` parts, whose extents are multiples of `rows` × `columns` but for the last ones.
  ProductParts(const onednn::Matmul& problem, int team, Shape shape, Index rows, Index columns);

  Index count() const { return batches_ * rows_ * columns_; }
  struct Part {
    Range batch, m, n;
  };
  Part part(Index index) const;

 private:
  onednn::Matmul p_;
  Index row_block_, column_block_;
  Index batches_ = 1, rows_ = 1, columns_ = 1;
};

class LibraryProduct {
 public:
  explicit LibraryProduct(const onednn::Matmul& problem);
  // `bias` is null if the problem has none.
  void run(const void* a, const void* b, const void* bias, void* c) const;

 private:
  onednn::Matmul p_;
  int team_;
  ProductParts parts_;
  // Primitives of one size of parts, one per thread.
  using Primitives = std::vector<std::unique_ptr<onednn::Primitive>>;
  std::vector<Primitives> primitives_;
  std::vector<std::size_t> size_of_part_;  // index into primitives_
};

}  // namespace tandem::cpu::TANDEM_LEVEL
