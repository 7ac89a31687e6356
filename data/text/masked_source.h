// Batches of texts with masked words, for masked language models (BERT, Devlin et al. 2018).
//
// A sample is a passage: [CLS] passage [SEP]; with pairs its two halves are the segments, [CLS] A [SEP] B
// [SEP], where half of the time B is the second half of another passage. Of the n tokens of a sample,
// round(share · n), at least 1 and at most `most`, are chosen; 80 % of them become [MASK], 10 % a random
// word, and 10 % stay. In training, choices are a function of (seed, epoch, sample); in evaluation of (seed,
// words of the sample), the same in every epoch and split.
//
// Fields: "tokens" i64 [N,T], padded at the end; "lengths" i64 [N]; "masked_positions" i64 [N,most], the rows
// n·T + t of the chosen positions among the N·T, in ascending order; "masked_labels" i64 [N,most], their
// original words, kNoTarget beyond them (position 0); with pairs also "segments" i64 [N,T] and "next" i64
// [N], 0 if B follows A, else 1. T and N are those of the batch in the epoch's order
// (data/text/length_buckets.h). Batch::samples is N, Batch::weight the number of chosen positions.
#pragma once

#include "core/random.h"
#include "data/text/bucket_epochs.h"
#include "data/text/passages.h"

namespace tandem::datasets {

struct MaskedMarks {
  std::int32_t begin = 0, end = 0, mask = 0, padding = 0;
  Index words = 0;                    // size of the vocabulary
  std::vector<std::int32_t> special;  // ids that are no random words, sorted
};

struct MaskingOptions {
  double share = 0.15;
  Index most = 20;
  bool pairs = false;
  bool training = true;  // false: choices do not depend on the epoch
  std::uint64_t seed = 0;
};

// Tokens that the marks take from a passage.
constexpr Index marks_in(bool pairs) { return pairs ? 3 : 2; }

// A sample before it is put into a batch.
struct MaskedText {
  std::vector<std::int64_t> tokens;
  Index first_segment = 0;  // its tokens, those of A with both marks; the others are segment 1
  std::vector<Index> positions;
  std::vector<std::int64_t> labels;  // of the positions
  std::int64_t next = 0;
};

// Number of chosen positions of a text of `tokens`, marks included.
Index masked_count(Index tokens, const MaskingOptions& options);

class MaskedSource final : public BucketSource {
 public:
  using PassagesPtr = std::shared_ptr<const Passages>;

  // Throws UserError for a vocabulary without a word, for pairs of passages of fewer than two ids, and as
  // order_buckets does.
  MaskedSource(PassagesPtr passages, MaskedMarks marks, const MaskingOptions& masking, BucketOptions options,
               Device device = {}, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  MaskedText text(Index sample, std::uint32_t epoch) const;

 private:
  RandomKey key_of(Index sample, std::uint32_t epoch) const;
  void mask(MaskedText& text, RandomStream& random) const;

  PassagesPtr passages_;
  MaskedMarks marks_;
  MaskingOptions masking_;
};

}  // namespace tandem::datasets
