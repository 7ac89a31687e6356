// Training of byte-pair encoding: the most frequent pair of neighbouring pieces merges, again and again.
//
// Sennrich et al., "Neural machine translation of rare words with subword units", ACL 2016. Counts are
// updated in the words that a merge changes, and a heap with outdated entries finds the next pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "data/text/byte_pairs.h"

namespace tandem::datasets {

struct CountedWord {
  std::vector<std::int32_t> symbols;  // at first of the alphabet
  std::int64_t count = 0;
};

struct BpeTrainingOptions {
  Index size = 0;        // largest number of pieces, the alphabet included
  Index min_count = 1;   // pairs with fewer occurrences are not merged
  std::string prefix{};  // of pieces within a word; a merge removes that of its right piece
};

struct TrainedBpe {
  std::vector<std::string> pieces;       // the alphabet, then a piece per merge unless it was known
  std::vector<BytePairs::Merge> merges;  // in order
};

// Of equally frequent pairs, that of the lower left id merges first, then that of the lower right id. The
// result does not depend on the order of the words.
TrainedBpe train_bpe(std::vector<std::string> alphabet, std::vector<CountedWord> words,
                     const BpeTrainingOptions& options);

}  // namespace tandem::datasets
