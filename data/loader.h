// Loader: the batches of a source, in order, prefetched and copied to their device.
//
// A batch is a pure function of (seed, epoch, number), so any number of worker threads gives bit-identical
// batches, and `seek` continues anywhere.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "data/sample_source.h"
#include "data/source.h"

namespace tandem::datasets {

// Prefetching. With a device, only the thread that drives it uses the loader; the workers touch host memory
// only, and copies overlap with computation.
struct Ahead {
  // 0: `next` fills batches on the calling thread and its helpers (core/cpu/parallel.h).
  // n: n worker threads keep up to n + prefetch batches ahead.
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
  // Samples of the epoch served so far; with shards, samples of batches whose parts were all served.
  Index position = 0;

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class Loader {
 public:
  // Throws UserError on more than 256 threads, an empty source, or an unknown device.
  explicit Loader(SourcePtr source, Ahead ahead = {});
  // Batches of a data set's samples. Also throws as SampleSource does.
  Loader(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch of the epoch, or nothing at its end; then the next epoch starts. Memory is reused once no
  // copy of the batch is left. An unreadable sample throws here and keeps the position, so that the next call
  // retries.
  std::optional<Batch> next();

  LoaderState state() const;
  // Batches of the epoch served so far.
  Index batches_served() const;
  // Continues from `state`, with the first batch that begins there or later, and with the first part of a
  // divided batch. Throws UserError when the position lies beyond the epoch's samples.
  void seek(const LoaderState& state);

  // Of the current epoch.
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
