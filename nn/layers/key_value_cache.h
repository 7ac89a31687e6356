// Cache of the keys and values of attention layers, for the generation of texts.
#pragma once

#include <vector>

#include "autograd/ops/attention.h"

namespace tandem::nn {

// Each row of a batch is a text, and has a position: its number of tokens so far. A call appends the keys and
// values of T tokens to each row, in place; memory grows by doubling. After the last layer, advance() moves
// the positions. Without gradients.
class KeyValueCache {
 public:
  struct Memory {
    Tensor keys, values;  // [L,R,capacity,G·D], or absent before the first call
  };

  KeyValueCache(Index layers, std::vector<Index> positions, Memory memory = {});

  // Whether all rows are at the same position. Otherwise calls may append only one token at a time.
  bool is_even() const;
  const std::vector<Index>& positions() const { return positions_; }
  const Memory& memory() const { return memory_; }

  // Keys and values that the new tokens see, and their mask.
  struct Seen {
    Tensor keys, values;  // [R,capacity,G·D], of which the first `count` are in use
    Index count = 0;
    Tensor lengths{};  // of rows at different positions
    bool causal = false;
  };
  // Appends keys and values [R,T,G·D] of a layer.
  Seen append(Index layer, const Tensor& keys, const Tensor& values);
  // Row r has `tokens[r]` more.
  void advance(const std::vector<Index>& tokens);

 private:
  void reserve(Index tokens, const Tensor& like);
  void write(const Tensor& rows, const Tensor& to) const;

  Index layers_;
  std::vector<Index> positions_;
  Memory memory_;
};

}  // namespace tandem::nn
