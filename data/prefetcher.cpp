#include "data/prefetcher.h"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"

namespace tandem::datasets {

Prefetcher::Prefetcher(Work work) : work_(std::move(work)) {
  entries_.resize(static_cast<std::size_t>(work_.threads) + static_cast<std::size_t>(work_.ahead));
  threads_.reserve(static_cast<std::size_t>(work_.threads));
  try {
    for (int i = 0; i < work_.threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::exception& error) {
    const std::size_t number = threads_.size() + 1;
    stop();
    throw VendorError(
        "loader", fmt::format("thread {} of {} could not be started: {}; a smaller data.workers needs fewer",
                              number, work_.threads, error.what()));
  }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (const Entry& entry : entries_) {
    if (entry.buffer) work_.give_back(entry.buffer);
  }
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] {
      return stop_ || started_ == work_.batches || started_ < taken_ + static_cast<Index>(entries_.size());
    });
    if (stop_ || started_ == work_.batches) return;
    const Index number = started_++;
    lock.unlock();
    Entry result{.done = true, .buffer = nullptr, .error = nullptr};
    try {
      result.buffer = work_.build(number);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    entries_[static_cast<std::size_t>(number) % entries_.size()] = std::move(result);
    finished_.notify_one();
  }
}

BatchBuffer* Prefetcher::take() {
  std::unique_lock lock(mutex_);
  ensure(taken_ < work_.batches, "loader", "batch {} of {} asked for", taken_, work_.batches);
  Entry& entry = entries_[static_cast<std::size_t>(taken_) % entries_.size()];
  finished_.wait(lock, [&] { return entry.done; });
  const Entry result = std::exchange(entry, Entry{});
  ++taken_;
  lock.unlock();
  wanted_.notify_all();
  if (result.error) std::rethrow_exception(result.error);
  return result.buffer;
}

bool Prefetcher::ready() {
  const std::lock_guard lock(mutex_);
  const Entry& next = entries_[static_cast<std::size_t>(taken_) % entries_.size()];
  return taken_ < work_.batches && next.done && !next.error;
}

}  // namespace tandem::datasets
