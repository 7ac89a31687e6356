#include "nn/layers/embedding.h"

#include "autograd/ops/index.h"
#include "core/backend.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::nn {

Embedding::Embedding(Index count, Index dim, std::optional<Index> padding_index)
    : padding_index_(padding_index) {
  require(count > 0 && dim > 0, "embedding", "a table needs rows and columns, got [{},{}]", count, dim);
  require(!padding_index || (*padding_index >= 0 && *padding_index < count), "embedding",
          "padding index {} lies outside a table of {} rows", padding_index.value_or(0), count);
  const Tensor table = parameter_memory({count, dim});
  init::normal(table);
  if (padding_index) backend_for(table.device()).fill(table.rows(*padding_index, 1), 0.0);
  Parameter weight(table);
  weight.set_by_rows();
  weight_ = add_parameter("weight", weight);
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight_.tensor(), index, padding_index_); }

std::string Embedding::describe() const {
  return fmt::format("Embedding({} × {})", weight_.value().size(0), weight_.value().size(1));
}

}  // namespace tandem::nn
