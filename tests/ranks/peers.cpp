// Batch norm over ranks (parallel/rank_peers.h), with and without concurrent sums of gradients, against batch
// norm of the whole batch on each rank; some ranks have no samples.
#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "parallel/partition.h"
#include "parallel/rank_peers.h"
#include "tests/ranks/checking.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;
using Values = std::vector<double>;

constexpr Index kChannels = 33;

struct Found {
  Values y, dx, next_mean, next_var;
};

// Two layers, rows first to last of a batch of so many.
Found pass(Index rows, Index first, Index last, BatchNormPeers* peers, std::vector<Pending>* meanwhile,
           Communicator& ranks) {
  std::vector<float> all;
  for (Index i = 0; i < rows * kChannels; ++i)
    all.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1013)) + 2.0));
  const auto part = [&](double shift) {
    std::vector<float> own(all.begin() + first * kChannels, all.begin() + last * kChannels);
    for (float& value : own) value = static_cast<float>(std::cos(3.0 * (static_cast<double>(value) + shift)));
    return Tensor::from(own, {last - first, kChannels});
  };
  const BatchNormStatistics statistics{Tensor::full({kChannels}, 0.0), Tensor::full({kChannels}, 1.0),
                                       Tensor::zeros({kChannels}), Tensor::zeros({kChannels})};
  const Tensor x = leaf(part(0.0));
  Tensor y;
  {
    const BatchNormPeersScope scope(peers);
    y = batch_norm_train(x, {}, {}, statistics, {.relu = true});
    y = batch_norm_train(mul(y, y), {}, {}, {});
  }
  // What a bucket of gradients is: begun before backward, and ended after it.
  std::vector<float> bucket(5000, 1.0f);
  if (meanwhile) meanwhile->push_back(ranks.start_all_reduce(bucket, parallel::Reduction::sum));
  const Tensor seed = part(1.0);
  backward({&y, 1}, {&seed, 1});
  if (meanwhile) {
    for (Pending& pending : *meanwhile) pending.wait(kDeadline);
    meanwhile->clear();
    expect(bucket[4999] == static_cast<float>(ranks.size()), "a bucket beside batch norm is {}",
           bucket[4999]);
  }
  return {y.to_vector<double>(), gradient_of(x).to_vector<double>(), statistics.next_mean.to_vector<double>(),
          statistics.next_var.to_vector<double>()};
}

// Of few rows a gradient is a small difference of terms of about `least`.
void expect_close(const Values& found, const Values& wanted, const char* what, double least = 0.0) {
  expect(found.size() == wanted.size(), "{}: {} values for {}", what, found.size(), wanted.size());
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(found[i] - wanted[i], 2);
    norm += std::pow(wanted[i], 2);
  }
  const double scale = std::max(std::sqrt(norm), least * std::sqrt(static_cast<double>(wanted.size())));
  expect(std::sqrt(difference) <= 1e-6 * scale, "{}: off by {}", what, std::sqrt(difference / norm));
}

void check_batch(Communicator& ranks, RankPeers& peers, Index rows) {
  const Found whole = pass(rows, 0, rows, nullptr, nullptr, ranks);
  const Range part = part_of_rank(static_cast<std::size_t>(rows), ranks.size(), ranks.rank());
  const bool has_samples = part.count() > 0;
  peers.begin(has_samples);
  expect(peers.uneven() == (rows < ranks.size()), "{} rows of {} ranks: uneven {}", rows, ranks.size(),
         peers.uneven());
  if (!has_samples) return peers.follow();
  std::vector<Pending> meanwhile;
  const Found own = pass(rows, static_cast<Index>(part.first), static_cast<Index>(part.last), &peers,
                         peers.uneven() ? nullptr : &meanwhile, ranks);
  peers.end();
  expect(!peers.uneven(), "the micro-batch has ended");
  const auto rows_of = [&](const Values& values) {
    return Values(values.begin() + static_cast<std::ptrdiff_t>(part.first) * kChannels,
                  values.begin() + static_cast<std::ptrdiff_t>(part.last) * kChannels);
  };
  expect_close(own.y, rows_of(whole.y), "y");
  expect_close(own.dx, rows_of(whole.dx), "dx", 1.0);
  expect_close(own.next_mean, whole.next_mean, "running mean");
  expect_close(own.next_var, whole.next_var, "running variance");
}

}  // namespace

void check_peers(Communicator& ranks) {
  RankPeers peers(ranks, kDeadline);
  for (int round = 0; round < 2; ++round)
    for (const Index rows : {Index{64}, Index{7}, Index{3}, Index{5}, Index{29}}) {
      check_batch(ranks, peers, rows);
      // Other calls fit in between.
      expect(ranks.all_reduce_value(1.0, parallel::Reduction::sum, kDeadline) == ranks.size(),
             "ranks are in step");
    }
  // A micro-batch that nobody has samples of.
  peers.begin(false);
  expect(!peers.uneven(), "there is nobody to follow");
  peers.follow();
}

}  // namespace tandem::test
