// Builds the batches of one epoch ahead of use, on threads of its own, and hands them out in order.
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
  // `build(k)` makes batch k of `batches`, and is called from the threads. A buffer that `take` gave is the
  // caller's; those that nobody took go to `give_back` in the end.
  struct Work {
    Index batches = 0;
    int threads = 1;
    int ahead = 2;  // finished or unfinished batches at a time, beyond one per thread
    std::function<BatchBuffer*(Index)> build;
    std::function<void(BatchBuffer*)> give_back;
  };
  // Throws VendorError when the system has no room for so many threads.
  explicit Prefetcher(Work work);
  // Waits for the batches being built and drops what was not taken.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch in order; rethrows what its `build` threw. At most `batches` calls.
  BatchBuffer* take();
  // Whether `take` would neither wait nor throw.
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
  std::vector<Entry> entries_;  // a ring: batch k lies at k mod its size
  Index started_ = 0, taken_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::datasets
