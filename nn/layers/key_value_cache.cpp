#include "nn/layers/key_value_cache.h"

#include <algorithm>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/shape.h"

namespace tandem::nn {

namespace {

constexpr const char* kCache = "key_value_cache";
constexpr Index kFirstCapacity = 16;  // beam search copies the memory of its rows at each step

// x [R,T,C] to rows `first` … first + T − 1 of y [R,capacity,C].
void write_rows(const Tensor& x, Index first, const Tensor& y) {
  StridedView from, to;
  from.strides = x.shape().strides();
  to.strides = y.shape().strides();
  to.offset = first * y.size(2);
  backend_for(y.device()).shape().strided_copy(x, from, y, to, x.shape());
  y.storage()->bump_version();
}

Tensor of_layer(const Tensor& all, Index layer) {
  return all.rows(layer, 1).viewed({all.size(1), all.size(2), all.size(3)});
}

}  // namespace

KeyValueCache::KeyValueCache(Index layers, std::vector<Index> positions, Memory memory)
    : layers_(layers), positions_(std::move(positions)), memory_(std::move(memory)) {
  ensure(!positions_.empty(), kCache, "a cache needs rows");
}

bool KeyValueCache::is_even() const {
  return std::ranges::all_of(positions_, [&](Index position) { return position == positions_.front(); });
}

void KeyValueCache::reserve(Index tokens, const Tensor& like) {
  const Index needed = std::ranges::max(positions_) + tokens;
  const Index capacity = memory_.keys.defined() ? memory_.keys.size(2) : 0;
  if (needed <= capacity) return;
  const auto rows = static_cast<Index>(positions_.size());
  const Shape shape{layers_, rows, std::max({needed, 2 * capacity, kFirstCapacity}), like.size(2)};
  for (Tensor* all : {&memory_.keys, &memory_.values}) {
    // Zeros: attention multiplies the values beyond a length by zero.
    const Tensor larger = Tensor::zeros(shape, like.options());
    if (capacity > 0)
      write_rows(all->viewed({layers_ * rows, capacity, like.size(2)}), 0,
                 larger.viewed({layers_ * rows, shape[2], like.size(2)}));
    *all = larger;
  }
}

void KeyValueCache::write(const Tensor& rows, const Tensor& to) const {
  if (is_even()) return write_rows(rows, positions_.front(), to);
  for (std::size_t r = 0; r < positions_.size(); ++r) {
    const auto row = static_cast<Index>(r);
    write_rows(rows.rows(row, 1), positions_[r], to.rows(row, 1));
  }
}

KeyValueCache::Seen KeyValueCache::append(Index layer, const Tensor& keys, const Tensor& values) {
  const NoGrad no_grad;
  const Index rows = keys.size(0), tokens = keys.size(1);
  ensure(rows == static_cast<Index>(positions_.size()), kCache, "has {} rows, got keys of {}",
         positions_.size(), rows);
  ensure(is_even() || tokens == 1, kCache, "rows at different positions take one token, got {}", tokens);
  reserve(tokens, keys);
  const Tensor all_keys = of_layer(memory_.keys, layer), all_values = of_layer(memory_.values, layer);
  write(cast(keys, all_keys.dtype()), all_keys);
  write(cast(values, all_values.dtype()), all_values);
  const Index most = std::ranges::max(positions_) + tokens;
  Seen seen{.keys = all_keys, .values = all_values, .count = most, .causal = true};
  if (is_even()) return seen;
  std::vector<std::int64_t> lengths;
  for (const Index position : positions_) lengths.push_back(position + 1);
  seen.lengths = Tensor::from(lengths, {rows});
  seen.causal = false;
  return seen;
}

void KeyValueCache::advance(const std::vector<Index>& tokens) {
  ensure(tokens.size() == positions_.size(), kCache, "has {} rows, got {} counts", positions_.size(),
         tokens.size());
  for (std::size_t r = 0; r < tokens.size(); ++r) positions_[r] += tokens[r];
}

}  // namespace tandem::nn
