// Merging of the bytes of a piece to tokens, by the ranks of byte-pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/byte_pairs.h"

namespace tandem::datasets {

class PairMerger {
 public:
  // Throws UserError in the name of `where` unless every byte is a token.
  PairMerger(const BytePairs& pairs, const std::string& where);

  // Appends the tokens of `piece`: from one token per byte, the neighbours of lowest rank merge, the leftmost
  // first among equals, until none has a rank. Takes n log n steps for n bytes.
  void append(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct Result {
    std::int32_t rank = 0, id = 0;
  };
  // nullptr if the two do not merge.
  const Result* merged(std::int32_t left, std::int32_t right) const;

  std::array<std::int32_t, 256> id_of_byte_{};
  std::unordered_map<std::uint64_t, Result> merges_;
};

}  // namespace tandem::datasets
