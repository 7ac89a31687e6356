// Batch norm over the shards of several peers, here threads, against batch norm of the whole batch.
// tests/program covers several processes.
#include "autograd/ops/norm_peers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/random.h"
#include "tests/support/meeting.h"

using namespace tandem;

namespace {

// What so many threads add up, in the order in which they come.
struct Sums {
  explicit Sums(int peers) : all(peers) {}
  std::mutex mutex{};
  std::vector<double> sum{};
  int calls = 0;  // over all peers
  test::Meeting all;
};

class ThreadPeers final : public BatchNormPeers {
 public:
  explicit ThreadPeers(Sums& sums) : sums_(sums) {}
  void sum(std::span<double> values) override {
    {
      const std::lock_guard lock(sums_.mutex);
      sums_.sum.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) sums_.sum[i] += values[i];
      ++sums_.calls;
    }
    sums_.all.meet();
    std::ranges::copy(sums_.sum, values.begin());
    sums_.all.meet();
    {
      const std::lock_guard lock(sums_.mutex);
      sums_.sum.clear();
    }
    sums_.all.meet();
  }

 private:
  Sums& sums_;
};

struct Case {
  DType dtype = DType::f32;
  bool relu = false, residual = false, affine = true, leaves_accumulate = false;
};

// What a shard, or the whole batch, comes to.
struct Found {
  std::vector<double> y, dx, dresidual, dgamma, dbeta, mean, var;
};

constexpr Index kChannels = 19, kRows = 37;

Tensor random_tensor(const Shape& shape, std::uint32_t call, DType dtype, double mean) {
  const Tensor t = Tensor::empty(shape, {.dtype = DType::f32});
  backend_for({}).random().random_normal({.seed = 5, .call = call}, t, mean, 1.0);
  const Tensor as = Tensor::empty(shape, {.dtype = dtype});
  backend_for({}).cast(t, as);
  return as;
}

// Rows first to last of the batch.
Found pass(const Case& c, Index first, Index last, BatchNormPeers* peers) {
  const auto part = [&](std::uint32_t call, double mean) {
    return random_tensor({kRows, kChannels}, call, c.dtype, mean).rows(first, last - first).clone();
  };
  // A mean that is large beside the deviation.
  const Tensor x = leaf(part(1, c.dtype == DType::f64 ? 3e4 : 3.0));
  const Tensor residual = c.residual ? leaf(part(2, 0.0)) : Tensor{};
  const DType wide = c.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor gamma = c.affine ? leaf(random_tensor({kChannels}, 3, wide, 1.0)) : Tensor{};
  const Tensor beta = c.affine ? leaf(random_tensor({kChannels}, 4, wide, 0.0)) : Tensor{};
  const BatchNormStatistics statistics{
      Tensor::full({kChannels}, 0.5, {.dtype = wide}), Tensor::full({kChannels}, 2.0, {.dtype = wide}),
      Tensor::zeros({kChannels}, {.dtype = wide}), Tensor::zeros({kChannels}, {.dtype = wide})};
  Tensor y;
  {
    const BatchNormPeersScope scope(peers);
    y = batch_norm_train(x, gamma, beta, statistics, {.momentum = 0.25, .relu = c.relu}, residual);
  }
  const Tensor seed = part(7, 0.1);
  // Twice as much where gradients add up in sinks that hold some.
  for (int i = 0; i < (c.leaves_accumulate ? 2 : 1); ++i) {
    const bool more = c.leaves_accumulate && i == 0;
    tandem::backward({&y, 1}, {&seed, 1}, {.retain_graph = more});
  }
  const auto gradient = [](const Tensor& t) {
    return t.defined() ? gradient_of(t).to_vector<double>() : std::vector<double>();
  };
  return {y.to_vector<double>(),
          gradient(x),
          gradient(residual),
          gradient(gamma),
          gradient(beta),
          statistics.next_mean.to_vector<double>(),
          statistics.next_var.to_vector<double>()};
}

double relative_error(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference) / std::max(1e-30, std::sqrt(norm));
}

// Shards that end at these rows, one a thread.
std::vector<Found> by_peers(const Case& c, const std::vector<Index>& ends) {
  Sums sums(static_cast<int>(ends.size()));
  std::vector<Found> found(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ends.size(); ++i)
    threads.emplace_back([&, i] {
      ThreadPeers peers(sums);
      found[i] = pass(c, i == 0 ? 0 : ends[i - 1], ends[i], &peers);
    });
  for (std::thread& thread : threads) thread.join();
  // Two sums of forward and one of each backward.
  CHECK(sums.calls == static_cast<int>(ends.size()) * (c.leaves_accumulate ? 4 : 3));
  return found;
}

}  // namespace

TEST_CASE("batch norm over shards of any size is that of the whole batch", "[norm_peers]") {
  const std::vector<std::vector<Index>> divisions{{37}, {20, 37}, {12, 13, 37}, {1, 19, 19, 37}};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const Case& c : {Case{dtype}, Case{dtype, true}, Case{dtype, false, true}, Case{dtype, true, true},
                          Case{dtype, true, true, false}}) {
      const Found whole = pass(c, 0, kRows, nullptr);
      for (const std::vector<Index>& ends : divisions) {
        INFO(name_of(dtype) << ", relu " << c.relu << ", residual " << c.residual << ", affine " << c.affine
                            << ", " << ends.size() << " shards");
        Found joined;
        for (const Found& shard : by_peers(c, ends)) {
          for (const auto part : {&Found::y, &Found::dx, &Found::dresidual})
            (joined.*part).insert((joined.*part).end(), (shard.*part).begin(), (shard.*part).end());
          for (const auto sum : {&Found::dgamma, &Found::dbeta}) {
            (joined.*sum).resize((shard.*sum).size());
            for (std::size_t i = 0; i < (shard.*sum).size(); ++i) (joined.*sum)[i] += (shard.*sum)[i];
          }
          // All peers have the same.
          if (!joined.mean.empty()) CHECK((joined.mean == shard.mean && joined.var == shard.var));
          joined.mean = shard.mean;
          joined.var = shard.var;
        }
        const double most = dtype == DType::f64 ? 1e-10 : dtype == DType::f32 ? 1e-6 : 5e-4;
        CHECK(relative_error(joined.y, whole.y) <= most);
        CHECK(relative_error(joined.dx, whole.dx) <= most);
        CHECK(relative_error(joined.dresidual, whole.dresidual) <= most);
        CHECK(relative_error(joined.dgamma, whole.dgamma) <= std::min(most, 1e-6));
        CHECK(relative_error(joined.dbeta, whole.dbeta) <= std::min(most, 1e-6));
        CHECK(relative_error(joined.mean, whole.mean) <= 1e-6);
        CHECK(relative_error(joined.var, whole.var) <= 1e-6);
      }
    }
}

TEST_CASE("16-bit gradients over shards are rounded once", "[norm_peers]") {
  // One shard alone has the sums of the kernel that makes both terms at once.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Case c{dtype, true};
    const std::vector<double> shared = by_peers(c, {kRows}).front().dx, whole = pass(c, 0, kRows, nullptr).dx;
    std::size_t others = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) others += shared[i] != whole[i];
    CHECK(others <= whole.size() / 100);  // a sum of another order of f32 terms may lie beyond a middle
  }
}

TEST_CASE("gradients over shards are added to what sinks hold", "[norm_peers]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Case once{dtype, true, true}, twice{dtype, true, true, true, true};
    const std::vector<Found> one = by_peers(once, {20, 37}), two = by_peers(twice, {20, 37});
    for (std::size_t shard = 0; shard < 2; ++shard)
      for (const auto part : {&Found::dx, &Found::dresidual, &Found::dgamma, &Found::dbeta}) {
        std::vector<double> doubled = one[shard].*part;
        for (double& value : doubled) value *= 2.0;
        CHECK(relative_error(two[shard].*part, doubled) <= (dtype == DType::f32 ? 1e-6 : 4e-3));
      }
  }
}

TEST_CASE("sums that a convolution took serve shards as well as reading them does", "[norm_peers]") {
  const Tensor x = random_tensor({6, kChannels}, 1, DType::f32, 0.5);
  const std::vector<double> values = x.to_vector<double>();
  std::vector<double> sums(2 * kChannels);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i % kChannels] += values[i];
    sums[kChannels + i % kChannels] += values[i] * values[i];
  }
  NoBatchNormPeers own;
  const ops::SharedMoments read = ops::shared_moments(own, x, {});
  const ops::SharedMoments given = ops::shared_moments(own, x, Tensor::from(sums, {2, kChannels}));
  CHECK(relative_error(given.mean.to_vector<double>(), read.mean.to_vector<double>()) <= 1e-12);
  CHECK(relative_error(given.var.to_vector<double>(), read.var.to_vector<double>()) <= 1e-12);
  CHECK(read.count == 12.0);
}

TEST_CASE("a shard looked at by itself has its own statistics, be it one value", "[norm_peers]") {
  NoBatchNormPeers own;
  const Case c{DType::f32, true, true};
  const Found shard = pass(c, 3, 20, &own), alone = pass(c, 3, 20, nullptr);
  for (const auto part : {&Found::y, &Found::dx, &Found::dresidual, &Found::dgamma, &Found::dbeta})
    CHECK(relative_error(shard.*part, alone.*part) <= 1e-6);
  const Found one = pass({}, 3, 4, &own);
  for (const double value : one.dx) CHECK(std::abs(value) <= 1e-3);
  CHECK_THROWS_AS(pass({}, 3, 4, nullptr), UserError);
}

TEST_CASE("invalid batch norm over peers is refused", "[norm_peers]") {
  class OnlyMe final : public BatchNormPeers {
    void sum(std::span<double>) override {}
  } only_me;
  const BatchNormPeersScope scope(&only_me);
  CHECK(BatchNormPeersScope::current() == &only_me);
  const auto told = [](const Tensor& x) -> std::string {
    try {
      batch_norm_train(x, {}, {}, {});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(told(Tensor::zeros({1, 4})), Catch::Contains("1 value(s) per channel over all shards"));
  CHECK(told(Tensor::zeros({2, 4})).empty());
  {
    const HigherOrder higher_order;
    CHECK_THAT(told(Tensor::zeros({2, 4})), Catch::Contains("parallel.sync_batch_norm"));
  }
  {
    const BatchNormPeersScope alone(nullptr);
    CHECK(BatchNormPeersScope::current() == nullptr);
  }
  CHECK(BatchNormPeersScope::current() == &only_me);
}

TEST_CASE("a non-finite value in one shard is non-finite in all", "[norm_peers]") {
  class WithInfinity final : public BatchNormPeers {
    void sum(std::span<double> values) override {
      values[0] += std::numeric_limits<double>::infinity();
      values.back() *= 2.0;
    }
  } peers;
  const BatchNormPeersScope scope(&peers);
  const Tensor y = batch_norm_train(random_tensor({4, 2}, 1, DType::f32, 0.0), {}, {}, {});
  CHECK_FALSE(std::isfinite(y.to_vector<double>()[0]));
  CHECK(std::isfinite(y.to_vector<double>()[1]));
}
