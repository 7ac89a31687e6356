// Loader: the batches of a source, in order, ahead of use, where they are wanted.
//
// A batch is a pure function of (seed, epoch, its number), so every number of worker threads gives the same
// batches, bit for bit, and `seek` continues anywhere.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "data/sample_source.h"
#include "data/source.h"

namespace tandem::datasets {

// How batches are made ahead. Where they go to a device, the loader is used by the thread that drives it and
// its threads keep to host memory; a batch that is ready early is copied beside what the device computes.
struct Ahead {
  // 0: `next` fills batches on the OpenMP team of the calling thread, between steps.
  // n: n threads of their own keep up to n + prefetch batches ahead.
  int threads = 0;
  int prefetch = 2;
};

// SampleOptions and Ahead in one.
struct LoaderOptions {
  Index batch_size = 32;
  bool shuffle = false;
  bool drop_last = false;
  int threads = 0;
  int prefetch = 2;
  std::uint64_t seed = 0;
  Device device = {};
  DType dtype = DType::f32;
  BatchWeight weigh{};
};

struct LoaderState {
  std::uint32_t epoch = 0;
  // Samples of the epoch that were served: where batches are divided, of those of which every part was.
  Index position = 0;

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class Loader {
 public:
  // Throws UserError on more than 256 threads, nothing to serve, or no such device.
  explicit Loader(SourcePtr source, Ahead ahead = {});
  // Of a data set's samples. Throws UserError as SampleSource does, too.
  Loader(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch of the epoch; nothing at its end, after which the next epoch starts. The tensors' memory
  // is used again once no copy of them is left. When a sample cannot be read, its error is thrown here in
  // place of its batch and the position stays: the next call tries again.
  std::optional<Batch> next();

  LoaderState state() const;
  // Batches of the epoch that were served.
  Index batches_served() const;
  // Continues from `state`, with the first batch that begins there or later; where batches are divided, with
  // the first part of one. Throws UserError when the position lies beyond the epoch's samples.
  void seek(const LoaderState& state);

  // Of the epoch that is under way.
  Index batches_per_epoch() const;
  Index samples_per_epoch() const;
  const Source& source() const;

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
