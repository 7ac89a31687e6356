// Windows of a text, for models without a state, such as Transformers: each window is read from its start.
//
// A window has T targets; its tokens are the words before them (`begin` before the first of the text). With
// `shuffle`, each epoch has an order of its own and cuts the text at other places, so that up to 2·T words
// are left out, and so are the last windows that fill no batch. Otherwise the windows come in order, every
// word is a target once, and the last window and the last batch may be smaller.
//
// Fields: "token" and "target" i64 [T,N]. Rows beyond the end of the text are padding: token 0, target
// kNoTarget. Batch::samples and Batch::weight are the number of targets.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "data/source.h"
#include "data/text/packed_ids.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

struct WindowOptions {
  Index windows = 12;    // N
  Index length = 64;     // T
  bool shuffle = false;  // for training
  std::uint64_t seed = 0;
  std::int32_t begin = Vocabulary::kEnd;  // token before the first word of the text
  Device device = {};
};

class WindowSource final : public Source {
 public:
  using Ids = std::shared_ptr<const PackedIds>;

  // Throws UserError on sizes below 1, a text without words, a text too short for a batch with shuffle, or an
  // invalid division.
  WindowSource(Ids ids, const WindowOptions& options, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;

  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override;
  Index samples_before(const BatchKey& key) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;
  Device device() const override { return options_.device; }

  const WindowOptions& options() const { return options_; }

 private:
  // First targets of the windows of an epoch, in their order.
  using Begins = std::shared_ptr<const std::vector<Index>>;
  // Caches the last epoch.
  Begins begins(std::uint32_t epoch) const;
  Index words() const { return static_cast<Index>(ids_->size()); }
  Index windows() const;  // of an epoch

  Ids ids_;
  WindowOptions options_;
  BatchLayout layout_;
  mutable std::mutex mutex_;
  mutable std::uint32_t begins_epoch_ = 0;
  mutable Begins begins_;
};

}  // namespace tandem::datasets
