// Contiguous streams of a text, for models that carry a state from batch to batch.
//
// Every word of `ids` is the target of one place of one stream, once an epoch. Of M words, stream b of N has
// M/N consecutive ones, one more if b < M mod N, the streams' one after the other. A batch is a chunk of
// every stream; its tokens are the words before the targets, of the first target of all Vocabulary::kEnd.
// Chunk k + 1 goes on where chunk k ended.
//
// Fields, whose shapes are the same for every batch: "token" and "target" i64 [T,N], "length" i64 [N], the
// chunk's words, which are the same for all streams but in the last chunk, where the last streams may have
// one less. Rows from there on are padding: token 0, target kNoTarget. Batch::samples and Batch::weight are
// the targets in it. A chunk's length is therefore ⌈samples / N⌉, too, on the host.
//
// Divided, a part has some of the streams, the same ones in every batch; without any it is empty. N is then
// the part's, and so are the targets.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/partition.h"
#include "data/source.h"
#include "data/text/packed_ids.h"

namespace tandem::datasets {

inline constexpr std::int64_t kNoTarget = -1;

struct StreamOptions {
  Index streams = 20;  // N
  Index steps = 35;    // words of a stream in a chunk
  // AWD-LSTM (Merity et al. 2018): a chunk's length is drawn from Normal(steps, 5), with a probability of 5 %
  // from Normal(steps/2, 5), cut to an integer, at least 5 and at most steps + kMostBeyond, which is T. The
  // last one has what is left. Otherwise T is `steps`. Of the mean over its words a short chunk would make as
  // long a step as a long one: Batch::rate_factor is its length / steps.
  bool random_lengths = false;
  std::uint64_t seed = 0;
  Device device = {};

  static constexpr Index kMostBeyond = 20;
};

class StreamSource final : public Source {
 public:
  using Ids = std::shared_ptr<const PackedIds>;

  // Throws UserError on streams or steps below 1, and where a stream would have no word, or there are no such
  // parts.
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
  // Where chunks begin in a stream, and where the last one ends.
  using Chunks = std::shared_ptr<const std::vector<Index>>;
  // Those of an epoch. The last one asked for is kept.
  Chunks chunks(std::uint32_t epoch) const;
  Index words() const { return static_cast<Index>(ids_->size()); }
  Range words_of(Index stream) const;
  // Targets of a stream among rows `begin` to `end` of its whole.
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
