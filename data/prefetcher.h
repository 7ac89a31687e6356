// Prefetcher: builds the batches of one epoch on its own threads and returns them in order.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch_memory.h"

namespace tandem::datasets {

class Prefetcher {
 public:
  // `build(k)` makes batch k of `batches` on a worker thread. The caller owns a buffer that `take` returned;
  // `give_back` receives those that were not taken.
  struct Work {
    Index batches = 0;
    int threads = 1;
    int ahead = 2;  // batches in progress or finished, beyond one per thread
    std::function<BatchBuffer*(Index)> build;
    std::function<void(BatchBuffer*)> give_back;
  };
  // Throws VendorError when the system cannot start the threads.
  explicit Prefetcher(Work work);
  // Waits for the batches being built and drops those not taken.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch in order; rethrows the error of its `build`. At most `batches` calls.
  BatchBuffer* take();
  // True if `take` would neither wait nor throw.
  bool ready();

 private:
  struct Entry {
    bool done = false;
    BatchBuffer* buffer = nullptr;
    std::exception_ptr error;
  };

  void run();
  void stop();

  Work work_;
  std::mutex mutex_;
  std::condition_variable finished_, wanted_;
  std::vector<Entry> entries_;  // ring: batch k lies at k mod its size
  Index started_ = 0, taken_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::datasets
