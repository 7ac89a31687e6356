// Gradient accumulation: micro-batches and their weights.
#include "optim/step/micro_batches.h"

#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// A linear model of 4 inputs whose loss over rows [first, first+count) of a fixed batch is a mean of squares.
struct Regression {
  std::shared_ptr<Toy> toy = std::make_shared<Toy>();
  Regression() {
    toy->add("w", {4, 1}, [](Index i) { return 0.1 * static_cast<double>(i) - 0.2; });
  }
  Tensor loss(Index first, Index count) const {
    const Tensor x = Tensor::from(
        tabulate(16 * 4, [](Index i) { return std::sin(1.7 * static_cast<double>(i)); }), {16, 4});
    const Tensor y =
        Tensor::from(tabulate(16, [](Index i) { return std::cos(0.9 * static_cast<double>(i)); }), {16, 1});
    const Tensor r = sub(matmul(x.rows(first, count), (*toy)[0]), y.rows(first, count));
    return div(matmul(reshape(r, {1, count}), r), static_cast<double>(count));
  }
  Values weights() const { return values_of((*toy)[0].value()); }
};

}  // namespace

TEST_CASE("micro-batches weighted by samples equal one batch", "[optim]") {
  const auto train = [](const std::vector<std::pair<Index, Index>>& parts, bool weighted) {
    Regression r;
    optim::Sgd sgd(r.toy->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Step step(*r.toy, {&sgd}, {.clip_norm = 0.5, .accumulate = 4});
    for (int t = 0; t < 5; ++t) {
      for (const auto& [first, count] : parts)
        step.backward(r.loss(first, count), weighted ? static_cast<double>(count) : 1.0);
      step.apply();
    }
    return std::pair(r.weights(), step.last_report().gradient_norm);
  };
  const auto [whole, norm] = train({{0, 16}}, true);
  const auto [split, split_norm] = train({{0, 4}, {4, 7}, {11, 5}}, true);
  const auto [equal, equal_norm] = train({{0, 4}, {4, 4}, {8, 4}, {12, 4}}, false);
  const auto [wrong, wrong_norm] = train({{0, 4}, {4, 7}, {11, 5}}, false);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(split[i] == Approx(whole[i]).epsilon(3e-6).margin(1e-6));
    CHECK(equal[i] == Approx(whole[i]).epsilon(3e-6).margin(1e-6));
  }
  CHECK(split_norm == Approx(norm).epsilon(1e-5));
  CHECK(equal_norm == Approx(norm).epsilon(1e-5));
  CHECK(std::abs(wrong_norm - norm) > 1e-3);  // the weights do matter here
}

TEST_CASE("micro-batches that count nothing add nothing to a step", "[optim]") {
  const auto train = [](const std::vector<std::pair<Index, double>>& parts) {
    Regression r;
    optim::Sgd sgd(r.toy->parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::Step step(*r.toy, {&sgd}, {.accumulate = 4});
    for (int t = 0; t < 3; ++t) {
      for (const auto& [first, weight] : parts) step.backward(r.loss(first, 4), weight);
      step.apply();
    }
    return std::pair(r.weights(), step.last_report());
  };
  const auto [expected, report] = train({{4, 3.0}, {12, 1.5}});
  for (const auto& parts : {std::vector<std::pair<Index, double>>{{0, 0.0}, {4, 3.0}, {8, 0.0}, {12, 1.5}},
                            {{4, 3.0}, {0, 0.0}, {12, 1.5}, {8, 0.0}}}) {
    const auto [weights, own] = train(parts);
    CHECK(weights == expected);
    CHECK(own.loss == report.loss);
    CHECK(own.gradient_norm == report.gradient_norm);
  }
  const auto [still, nothing] = train({{0, 0.0}, {4, 0.0}});
  CHECK(still == Regression().weights());
  CHECK(nothing.gradient_norm == 0.0);
  CHECK(nothing.applied == 3);
}

TEST_CASE("micro-batches are counted and weighed in units of the first that has samples", "[optim]") {
  optim::MicroBatches two(3, 2);
  CHECK(two.weight() == 1.0);  // of nothing
  CHECK(two.weigh(0.0) == 0.0);
  two.add(0.0, 0);
  CHECK(two.weigh(8.0) == 1.0);
  two.add(1.0, 0);
  CHECK(two.weigh(2.0) == 0.25);
  two.add(0.25, 1);
  CHECK(two.reference() == 8.0);
  CHECK(two.count() == 3);
  CHECK(two.weight() == 1.0);  // of the loss that has most
  CHECK_THROWS_WITH(two.weigh(-1.0), Catch::Contains("at least 0 samples, got -1"));
  CHECK_THROWS_WITH(two.check_room(2), Catch::Contains("loss number 2 of 2"));
  two.add(1.0, 0);
  CHECK_THROWS_WITH(two.check_room(0), Catch::Contains("3 times for loss number 0"));
  CHECK_NOTHROW(two.check_room(1));
  CHECK_FALSE(two.ready());
  two.add(1.0, 1);
  two.add(1.0, 1);
  CHECK(two.ready());
  two.clear();
  CHECK(two.count() == 0);
  CHECK(two.weigh(4.0) == 1.0);
}

TEST_CASE("micro-batches go on from their values", "[optim]") {
  optim::MicroBatches saved(2, 2), loaded(2, 2);
  saved.add(saved.weigh(4.0), 0);
  saved.add(saved.weigh(2.0), 1);
  StepState gathered, back;
  gathered.non_finite = 3;
  gathered.loss_sum = 0.75;
  const std::vector<double> values = saved.values(gathered);
  CHECK(values == std::vector<double>{2, 4, 3, 0.75, 1, 1, 1, 0.5});
  loaded.check(values, "x");
  loaded.take(values, back);
  CHECK(back.non_finite == 3);
  CHECK(back.loss_sum == 0.75);
  CHECK(loaded.values(back) == values);
  CHECK(loaded.weigh(2.0) == 0.5);
  CHECK_THROWS_WITH(optim::MicroBatches(1, 1).check(std::vector<double>{2, 1, 0, 0, 2, 1}, "x"),
                    Catch::Contains("saved after 2 micro-batches of a step, this one takes 1"));
  for (const std::size_t damaged : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{5}}) {
    CAPTURE(damaged);
    std::vector<double> wrong = values;
    wrong[damaged] = -1.0;
    CHECK_THROWS_WITH(loaded.check(wrong, "x"), Catch::Contains("x is damaged"));
  }
}
