// Loader: batches of a data set, shuffled, augmented and normalised.
//
// Order and augmentation are pure functions of (seed, epoch, sample): every number of worker threads gives
// the same batches, bit for bit, and `seek` continues anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "data/dataset.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// Tasks add the fields they need; a field that a task lacks is an absent tensor.
struct Batch {
  Tensor images;        // [N,H,W,C], or [N,…] features; normalised, or i64 indices
  Tensor labels;        // i64 [N]
  Tensor soft_targets;  // f32 [N,classes] where the pipeline mixes samples
  Tensor indices;       // i64 [N], the samples' numbers in the data set
  double weight = 0.0;  // what it counts in a mean over several batches, see LoaderOptions::weigh

  Index size() const { return labels.defined() ? labels.shape()[0] : 0; }
  // A copy in other memory; the identity when nothing differs.
  Batch to(Device device) const;
};

// Batch::weight from the labels of a batch, on the host. Called from several threads at once.
using BatchWeight = std::function<double(std::span<const std::int64_t> labels)>;

struct LoaderOptions {
  Index batch_size = 32;
  bool shuffle = false;
  bool drop_last = false;  // leave out a last batch that is not full
  // 0: `next` decodes and augments on the OpenMP team of the calling thread, between steps.
  // n: n threads of their own keep up to n + prefetch batches ahead.
  int threads = 0;
  int prefetch = 2;
  std::uint64_t seed = 0;
  // Where batches arrive. The loader is then used by the thread that drives the device, and its threads keep
  // to host memory; a batch that is ready early is copied beside what the device computes.
  Device device = {};
  DType dtype = DType::f32;    // of the images, floating; values are f32 rounded once; indices stay i64
  Index channel_multiple = 1;  // images [H,W,C] get channels of zeros up to a multiple of this
  BatchWeight weigh{};         // absent, and where the pipeline mixes samples: their number
};

struct LoaderState {
  std::uint32_t epoch = 0;
  Index position = 0;  // samples of the epoch that were served

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class Loader {
 public:
  // Throws UserError on a batch size below 1, more than 256 threads, nothing to serve, or no such device.
  Loader(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch of the epoch; nothing at its end, after which the next epoch starts. The tensors' memory
  // is used again once no copy of them is left. When a sample cannot be read, its error is thrown here in
  // place of its batch and the position stays: the next call tries again.
  std::optional<Batch> next();

  LoaderState state() const;
  // Continues from `state`. Throws UserError when the position lies beyond the data set.
  void seek(const LoaderState& state);

  Index batches_per_epoch() const;
  Index samples_per_epoch() const;
  const Dataset& dataset() const;
  const Pipeline& pipeline() const;
  const LoaderOptions& options() const;

  // for (const Batch& batch : loader): the rest of the epoch.
  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_.reset();  // its memory may serve the next one
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    Loader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() { return {}; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::datasets
