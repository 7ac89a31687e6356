// Overlapping all-reduces: others begin meanwhile, are tested, and are waited for in another order.
#include <chrono>
#include <thread>

#include "tests/ranks/checking.h"

namespace tandem::test {

using namespace tandem::parallel;

void check_overlap(Communicator& ranks) {
  constexpr std::size_t kBuckets = 12;
  std::vector<std::vector<float>> buckets;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket)
    buckets.emplace_back(bucket * bucket * 1117, static_cast<float>(ranks.rank() + 1));
  const float wanted = static_cast<float>(ranks.size() * (ranks.size() + 1)) / 2;
  for (int round = 0; round < 3; ++round) {
    std::vector<Pending> pending;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      buckets[bucket].assign(buckets[bucket].size(), static_cast<float>(ranks.rank() + 1));
      pending.push_back(ranks.start_all_reduce(buckets[bucket], Reduction::sum));
      if (bucket % 3 == 0) pending[bucket / 2].test();
      // Ranks are not at the same place at the same time.
      std::this_thread::sleep_for(std::chrono::milliseconds((ranks.rank() * 3 + round) % 4));
    }
    const double sum = ranks.all_reduce_value(1.0, Reduction::sum, kDeadline);
    expect(sum == ranks.size(), "a sum beside others is {}", sum);
    ranks.barrier(kDeadline);
    for (std::size_t i = 0; i < kBuckets; ++i) {
      Pending& last = pending[kBuckets - 1 - i];
      last.wait(kDeadline);
      expect(last.test(), "what was waited for has ended");
      last.wait(kDeadline);
    }
    for (const std::vector<float>& bucket : buckets)
      for (const float value : bucket) expect(value == wanted, "a bucket of {} has {}", bucket.size(), value);
  }
  // Testing alone brings one to its end, too.
  std::vector<double> data(100000, 1.0);
  Pending pending = ranks.start_all_reduce(data, Reduction::sum);
  while (!pending.test()) std::this_thread::yield();
  expect(data.back() == ranks.size(), "a tested sum is {}", data.back());
}

}  // namespace tandem::test
