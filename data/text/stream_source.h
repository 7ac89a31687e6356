// Contiguous streams of a text, for models that carry their state from batch to batch.
//
// Each word of `ids` is the target of one position of one stream, once an epoch. The text is cut into N
// streams: of M words, stream b has M/N consecutive ones, plus one if b < M mod N. A batch is a chunk of each
// stream; its tokens are the words before the targets (`begin` before the first). Chunk k + 1 continues where
// chunk k ended.
//
// Fields, of constant shapes: "token" and "target" i64 [T,N]; "length" i64 [N], the words of the chunk, equal
// for all streams except that in the last chunk the last streams may have one less. Rows beyond are padding:
// token 0, target kNoTarget. Batch::samples and Batch::weight are the number of targets, so the length of a
// chunk is also ⌈samples / N⌉ on the host.
//
// With shards, a part has the same streams in every batch, and none leave it empty. N and the targets are
// then the part's.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/partition.h"
#include "data/source.h"
#include "data/text/packed_ids.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

inline constexpr std::int64_t kNoTarget = -1;

struct StreamOptions {
  Index streams = 20;  // N
  Index steps = 35;    // words of a stream in a chunk
  // AWD-LSTM (Merity et al. 2018): the length of a chunk is drawn from Normal(steps, 5), or with a
  // probability of 5 % from Normal(steps/2, 5), truncated to an integer, and limited to [5, steps +
  // kMostBeyond], where the upper limit is T. The last chunk has the rest. Otherwise T is `steps`. The loss
  // is a mean over words, so a short chunk would make as long a step as a long one: Batch::rate_factor is
  // length / steps.
  bool random_lengths = false;
  std::uint64_t seed = 0;
  std::int32_t begin = Vocabulary::kEnd;  // token before the first word of the text
  Device device = {};

  static constexpr Index kMostBeyond = 20;
};

class StreamSource final : public Source {
 public:
  using Ids = std::shared_ptr<const PackedIds>;

  // Throws UserError on streams or steps below 1, streams without a word, or an invalid division.
  StreamSource(Ids ids, StreamOptions options, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return options_.device; }

  const StreamOptions& options() const { return options_; }
  Index capacity() const { return capacity_; }  // T

 private:
  // Begins of chunks in a stream, and the end of the last.
  using Chunks = std::shared_ptr<const std::vector<Index>>;
  // Chunks of an epoch. Caches the last one.
  Chunks chunks(std::uint32_t epoch) const;
  Index words() const { return static_cast<Index>(ids_->size()); }
  Range words_of(Index stream) const;
  // Targets in rows `begin` to `end` of a stream.
  Index targets_in(Index stream, Index begin, Index end) const;

  Ids ids_;
  StreamOptions options_;
  Index capacity_;
  BatchLayout layout_;
  mutable std::mutex mutex_;
  mutable std::uint32_t chunks_epoch_ = 0;
  mutable Chunks chunks_;
};

}  // namespace tandem::datasets
