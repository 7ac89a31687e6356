// Unreadable samples that were replaced (data.skip_bad_samples): reported by any thread, printed by one.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tandem::tasks {

class SkippedSamples {
 public:
  // A SampleReport; valid as long as this object.
  std::function<void(const std::string&)> reporter() {
    return [this](const std::string& reason) {
      const std::lock_guard lock(mutex_);
      untold_.push_back(reason);
      ++count_;
    };
  }

  // The reasons since the last call.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(untold_, {});
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> untold_;
  std::size_t count_ = 0;
};

// Prints one, or a summary of all, to stderr for commands other than runs; nothing if there are none.
void warn_of_skipped(const std::string& reason);
void warn_of_skipped(SkippedSamples& skipped);

// "sample skipped: [cats/3.png] truncated…", and the closing summary.
std::string text_of_skipped(const std::string& reason);
std::string text_of_skipped(std::size_t count);

}  // namespace tandem::tasks
