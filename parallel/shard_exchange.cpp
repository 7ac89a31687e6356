#include "parallel/shard_exchange.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"
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
    return gather_rows(ranks_, own, std::move(counts), options_.flag, options_.deadline_s);
  }

  void gather_parts(const Tensor& whole, std::span<const std::size_t> counts) override {
    ranks_.all_gather(elements_of(own_part(whole, counts)), counts, elements_of(whole), options_.deadline_s);
  }

  void tell(std::span<double> values, int process) override {
    ranks_.broadcast(values, process, options_.deadline_s);
  }

  Tensor part_by_part(const Tensor& own, std::span<const std::size_t> counts) override {
    const auto* const first = static_cast<const std::byte*>(own.raw());
    const auto parts = ranks_.gather_bytes({first, own.bytes()}, options_.deadline_s);
    if (parts.empty()) return {};
    const Tensor whole = Tensor::empty({std::accumulate(counts.begin(), counts.end(), Index{0})},
                                       {own.dtype(), own.device(), MemoryKind::workspace});
    auto* to = static_cast<std::byte*>(whole.raw());
    for (const std::vector<std::byte>& part : parts) to = std::ranges::copy(part, to).out;
    return whole;
  }

 protected:
  static Elements elements_of(const Tensor& values) {
    return {values.raw(), static_cast<std::size_t>(values.numel()), values.dtype()};
  }

  // The own part of a buffer divided among ranks.
  Tensor own_part(const Tensor& whole, std::span<const std::size_t> counts) const {
    const auto own = counts.begin() + ranks_.rank();
    return whole.rows(std::accumulate(counts.begin(), own, Index{0}), static_cast<Index>(*own));
  }

  Communicator& ranks_;
  const ShardExchangeOptions options_;
  const Range block_;
};

// Ranges of gradients in flight.
class RangeSums {
 public:
  RangeSums(Communicator& ranks, const ShardExchangeOptions& options, std::optional<WireError>* error)
      : ranks_(ranks), options_(options), error_(error) {
    if (options.wire == DType::f16)
      while (divisor_ < ranks.size()) divisor_ *= 2;
  }

  void begin(const Tensor& range) {
    Backend& backend = backend_for(range.device());
    Sum& sum = sums_.emplace_back(Sum{.range = range});
    if (options_.wire == DType::f32) {
      sum.work = start(range);
    } else {
      if (error_ && !*error_) sum.exact = range.clone();
      if (divisor_ > 1) backend.update().scale_and_limit(range, 1.0 / divisor_, kNoLimit);
      sum.sent = memory_for(range);
      backend.cast(range, sum.sent);
      sum.work = start(sum.sent);
    }
    for (Sum& each : sums_) each.work.test();  // makes progress on earlier ones
  }

  // Synchronous reduce-scatter of `total` to `own`, a part of it.
  void scatter(const Tensor& total, std::span<const std::size_t> counts, const Tensor& own) {
    if (options_.wire == DType::f32) return reduce(total, counts, own);
    const auto first = (static_cast<const float*>(own.raw()) - total.data<float>());
    Tensor exact;
    if (error_ && !*error_) {
      exact = total.clone();
      reduce(exact, counts, exact.rows(first, own.numel()));
    }
    Backend& backend = backend_for(total.device());
    if (divisor_ > 1) backend.update().scale_and_limit(total, 1.0 / divisor_, kNoLimit);
    used_ = 0;
    const Tensor sent = memory_for(total), received = sent.rows(first, own.numel());
    backend.cast(total, sent);
    reduce(sent, counts, received);
    backend.cast(received, own);
    if (divisor_ > 1) backend.update().scale_and_limit(own, divisor_, kNoLimit);
    if (!exact.defined()) return;
    WireError found;
    add_difference(own, exact.rows(first, own.numel()), found);
    std::array<double, 2> squares{found.difference, found.norm};
    ranks_.all_reduce(squares, Reduction::sum, options_.deadline_s);
    note({squares[0], squares[1]});
  }

  void finish() {
    WireError found;
    for (Sum& sum : sums_) {
      sum.work.wait(options_.deadline_s);
      if (!sum.sent.defined()) continue;
      Backend& backend = backend_for(sum.range.device());
      backend.cast(sum.sent, sum.range);
      if (divisor_ > 1) backend.update().scale_and_limit(sum.range, divisor_, kNoLimit);
      if (sum.exact.defined()) compare(sum, found);
    }
    note(found);
    sums_.clear();
    used_ = 0;
  }

 private:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  struct Sum {
    Tensor range, sent{}, exact{};
    Pending work{};
  };

  Pending start(const Tensor& values) {
    return ranks_.start_all_reduce(
        Elements(values.raw(), static_cast<std::size_t>(values.numel()), values.dtype()), Reduction::sum);
  }

  // Memory reused from the same range of the step before.
  Tensor memory_for(const Tensor& range) {
    if (used_ == memory_.size() || memory_[used_].shape() != range.shape()) {
      memory_.resize(used_);
      memory_.push_back(Tensor::empty(range.shape(), {options_.wire, range.device(), MemoryKind::workspace}));
    }
    return memory_[used_++];
  }

  void reduce(const Tensor& total, std::span<const std::size_t> counts, const Tensor& own) {
    ranks_.reduce_scatter(ConstElements(total.raw(), static_cast<std::size_t>(total.numel()), total.dtype()),
                          counts, Elements(own.raw(), static_cast<std::size_t>(own.numel()), own.dtype()),
                          Reduction::sum, options_.deadline_s);
  }

  void compare(const Sum& sum, WireError& found) {
    std::span exact(sum.exact.data<float>(), static_cast<std::size_t>(sum.exact.numel()));
    ranks_.all_reduce(exact, Reduction::sum, options_.deadline_s);
    add_difference(sum.range, sum.exact, found);
  }

  // Adds squared differences.
  static void add_difference(const Tensor& got, const Tensor& exact, WireError& found) {
    for (Index i = 0; i < exact.numel(); ++i) {
      const double value = exact.data<float>()[i],
                   difference = static_cast<double>(got.data<float>()[i]) - value;
      found.difference += difference * difference;
      found.norm += value * value;
    }
  }

  // Skips a step that overflowed.
  void note(const WireError& squares) {
    if (error_ && squares.norm > 0.0 && std::isfinite(squares.norm) && std::isfinite(squares.difference))
      *error_ = {std::sqrt(squares.difference), std::sqrt(squares.norm)};
  }

  Communicator& ranks_;
  const ShardExchangeOptions& options_;
  std::optional<WireError>* const error_;
  double divisor_ = 1.0;
  std::vector<Sum> sums_;
  std::vector<Tensor> memory_;  // send buffers, in the order of the ranges
  std::size_t used_ = 0;
};

class FastExchange final : public RankExchange {
 public:
  FastExchange(Communicator& ranks, const ShardExchangeOptions& options, std::optional<WireError>* error)
      : RankExchange(ranks, options), ranges_(ranks, options_, error) {}

  // A single shard needs no copy.
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
    add_own(total);
    ranks_.all_reduce(total, Reduction::sum, options_.deadline_s);
    drop();
  }

  void sum_parts(const Tensor& total, std::span<const std::size_t> counts) override {
    add_own({total.data<float>(), static_cast<std::size_t>(total.numel())});
    ranges_.scatter(total, counts, own_part(total, counts));
    drop();
  }

  void drop() override { added_ = 0; }

  // Only if every rank has one shard, so that all do the same. A single process reduces nothing.
  std::size_t bucket_bytes() const override {
    return ranks_.size() > 1 && options_.shards == ranks_.size() ? options_.bucket_bytes : 0;
  }
  void begin(const Tensor& range) override { ranges_.begin(range); }
  void finish() override { ranges_.finish(); }

 private:
  // The sum of the own shards.
  void add_own(std::span<float> total) {
    ensure(added_ == own(), "shards", "{} of {} shards were added", added_, own());
    const std::span<const float> own_sum = own() == 1 ? only_ : std::span<const float>(sum_);
    if (own_sum.data() != total.data()) std::ranges::copy(own_sum, total.begin());
  }

  int added_ = 0;
  std::span<const float> only_;
  std::vector<float> sum_;  // reused memory
  RangeSums ranges_;
};

class ReproducibleExchange final : public RankExchange {
 public:
  using RankExchange::RankExchange;

  void add(std::span<const float> values) override {
    current_ = &sums_.try_emplace(values.size(), options_.shards, block_, values.size()).first->second;
    current_->add(values);
  }

  void sum(std::span<float> total) override {
    ensure(current_ != nullptr, "shards", "sum without add");
    all_reduce_shards(ranks_, *current_, total, options_.deadline_s);
    drop();
  }

  void sum_parts(const Tensor& total, std::span<const std::size_t> counts) override {
    ensure(current_ != nullptr, "shards", "sum without add");
    const Tensor part = own_part(total, counts);
    reduce_scatter_shards(ranks_, *current_, counts,
                          std::span(part.data<float>(), static_cast<std::size_t>(part.numel())),
                          options_.deadline_s);
    drop();
  }

  void drop() override {
    if (current_) current_->clear();
    current_ = nullptr;
  }

 private:
  std::map<std::size_t, ShardSum<float>> sums_;  // by length; reused memory
  ShardSum<float>* current_ = nullptr;           // the current sum
};

}  // namespace

std::vector<double> gather_rows(Communicator& ranks, std::span<const double> own,
                                std::vector<std::size_t> counts, SharedFlag* flag, double deadline_s) {
  std::vector<double> sent(own.begin(), own.end());
  sent.push_back(flag && flag->own ? 1.0 : 0.0);
  for (std::size_t& count : counts) ++count;
  std::vector<double> told(std::accumulate(counts.begin(), counts.end(), std::size_t{0})), rows;
  ranks.all_gather(sent, counts, told, deadline_s);
  if (flag) flag->any = false;
  auto first = told.begin();
  for (const std::size_t count : counts) {
    const auto last = first + static_cast<std::ptrdiff_t>(count) - 1;
    rows.insert(rows.end(), first, last);
    if (flag && *last != 0.0) flag->any = true;
    first = last + 1;
  }
  return rows;
}

std::unique_ptr<optim::ShardExchange> make_shard_exchange(Communicator& ranks,
                                                          const ShardExchangeOptions& options,
                                                          std::optional<WireError>* error) {
  require(options.shards >= ranks.size(), "shards", "{} for {} ranks: each needs at least one",
          options.shards, ranks.size());
  if (options.reproducible) return std::make_unique<ReproducibleExchange>(ranks, options);
  return std::make_unique<FastExchange>(ranks, options, error);
}

}  // namespace tandem::parallel
