#include "parallel/shard_exchange.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "parallel/arithmetic.h"
#include "parallel/partition.h"
#include "parallel/shard_sum.h"

namespace tandem::parallel {

namespace {

class RankExchange : public optim::ShardExchange {
 public:
  RankExchange(Communicator& ranks, const ShardExchangeOptions& options)
      : ranks_(ranks),
        options_(options),
        block_(part_of_rank(static_cast<std::size_t>(options.shards), ranks.size(), ranks.rank())) {}

  int shards() const override { return options_.shards; }
  int first() const override { return static_cast<int>(block_.first); }
  int own() const override { return static_cast<int>(block_.count()); }
  double usual_samples() const override { return options_.usual_samples; }

  std::vector<double> gather(std::span<const double> own) override {
    const std::size_t width = own.size() / block_.count();
    std::vector<std::size_t> counts =
        counts_of_ranks(static_cast<std::size_t>(options_.shards), ranks_.size());
    for (std::size_t& count : counts) count *= width;
    std::vector<double> all(static_cast<std::size_t>(options_.shards) * width);
    ranks_.all_gather(own, counts, all, options_.deadline_s);
    return all;
  }

 protected:
  Communicator& ranks_;
  const ShardExchangeOptions options_;
  const Range block_;
};

class FastExchange final : public RankExchange {
 public:
  using RankExchange::RankExchange;

  // The only shard is added up where it lies.
  void add(std::span<const float> values) override {
    ++added_;
    if (own() == 1) {
      only_ = values;
    } else if (added_ == 1) {
      sum_.assign(values.begin(), values.end());
    } else {
      parallel::add(values.data(), sum_.data(), sum_.data(), sum_.size());
    }
  }

  void sum(std::span<float> total) override {
    ensure(added_ == own(), "shards", "{} of {} shards were added", added_, own());
    const std::span<const float> own_sum = own() == 1 ? only_ : std::span<const float>(sum_);
    if (own_sum.data() != total.data()) std::ranges::copy(own_sum, total.begin());
    ranks_.all_reduce(total, Reduction::sum, options_.deadline_s);
    drop();
  }

  void drop() override { added_ = 0; }

 private:
  int added_ = 0;
  std::span<const float> only_;
  std::vector<float> sum_;  // its memory is kept
};

class ReproducibleExchange final : public RankExchange {
 public:
  using RankExchange::RankExchange;

  void add(std::span<const float> values) override {
    current_ = &sums_.try_emplace(values.size(), options_.shards, block_, values.size()).first->second;
    current_->add(values);
  }

  void sum(std::span<float> total) override {
    ensure(current_ != nullptr, "shards", "nothing was added");
    all_reduce_shards(ranks_, *current_, total, options_.deadline_s);
    drop();
  }

  void drop() override {
    if (current_) current_->clear();
    current_ = nullptr;
  }

 private:
  std::map<std::size_t, ShardSum<float>> sums_;  // by length: their memory is kept
  ShardSum<float>* current_ = nullptr;           // that shards were added to
};

}  // namespace

std::unique_ptr<optim::ShardExchange> make_shard_exchange(Communicator& ranks,
                                                          const ShardExchangeOptions& options) {
  require(options.shards >= ranks.size(), "shards", "{} for {} ranks: each has one at least", options.shards,
          ranks.size());
  if (options.reproducible) return std::make_unique<ReproducibleExchange>(ranks, options);
  return std::make_unique<FastExchange>(ranks, options);
}

}  // namespace tandem::parallel
