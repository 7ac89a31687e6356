// A module of plain parameters with gradients chosen by the test, and helpers for comparing bits.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "optim/step.h"

namespace tandem::test {

using Values = std::vector<float>;
using Formula = std::function<double(Index)>;

inline Values tabulate(Index count, const Formula& formula) {
  Values values;
  for (Index i = 0; i < count; ++i) values.push_back(static_cast<float>(formula(i)));
  return values;
}

// All shards of a batch in one process, added in their order.
class OwnShards final : public optim::ShardExchange {
 public:
  OwnShards(int shards, double usual_samples) : shards_(shards), usual_samples_(usual_samples) {}

  int shards() const override { return shards_; }
  int first() const override { return 0; }
  int own() const override { return shards_; }
  double usual_samples() const override { return usual_samples_; }
  std::vector<double> gather(std::span<const double> own) override { return {own.begin(), own.end()}; }
  void add(std::span<const float> values) override {
    if (sum_.empty()) return sum_.assign(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i) sum_[i] += values[i];
  }
  void sum(std::span<float> total) override {
    std::ranges::copy(sum_, total.begin());
    drop();
  }
  void drop() override { sum_.clear(); }
  // Whether the last step was taken to its end.
  bool empty() const { return sum_.empty(); }

 private:
  int shards_;
  double usual_samples_;
  Values sum_;
};

class Toy : public nn::Module {
 public:
  Parameter& add(const std::string& name, const Shape& shape, const Formula& formula) {
    return members_.emplace_back(
        add_parameter(name, Parameter(Tensor::from(tabulate(shape.numel(), formula), shape))));
  }
  const nn::Statistic& add_running(const std::string& name, const Values& values) {
    return add_statistic(name, Tensor::from(values, {static_cast<Index>(values.size())}));
  }
  std::int64_t& add_count(const std::string& name) { return add_counter(name); }
  Parameter& operator[](std::size_t i) { return members_[i]; }

  Tensor forward(const Tensor& x) override { return x; }

 private:
  std::deque<Parameter> members_;
};

// weight [2,3], or of another shape, and bias [3], as in tests/golden/optimizers.py.
inline std::shared_ptr<Toy> weight_and_bias(const Shape& weight = {2, 3}) {
  auto toy = std::make_shared<Toy>();
  toy->add("weight", weight, [](Index i) { return std::sin(1.3 * static_cast<double>(i) + 0.2); });
  toy->add("bias", {3}, [](Index i) { return std::sin(1.3 * static_cast<double>(i) + 1.2); });
  return toy;
}

// Σ w·g as one number: the gradient of w is exactly g times the seed.
inline Tensor product(const Tensor& w, const Values& g) {
  const Index n = w.numel();
  return matmul(reshape(w, {1, n}), Tensor::from(g, {n, 1}));
}

inline Values golden_gradient(std::size_t parameter, Index count, int t) {
  const double p = static_cast<double>(parameter);
  return tabulate(count,
                  [&](Index i) { return (0.5 + p) * std::cos(0.7 * static_cast<double>(i) + 1.1 * t + p); });
}

// The loss whose gradients are those of tests/golden/optimizers.py in step t.
inline Tensor golden_loss(Toy& toy, int t, bool with_bias = true) {
  const Tensor loss = product(toy[0], golden_gradient(0, toy[0].value().numel(), t));
  return with_bias ? add(loss, product(toy[1], golden_gradient(1, toy[1].value().numel(), t))) : loss;
}

inline Values values_of(const Tensor& tensor) { return tensor.to_vector<float>(); }

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// A deep copy of a state.
inline std::vector<optim::NamedTensor> snapshot(optim::Step& step) {
  std::vector<optim::NamedTensor> copy;
  for (const auto& [name, tensor] : step.state()) copy.emplace_back(name, tensor.clone());
  return copy;
}

inline bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// The message of the UserError that `call` throws.
template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace tandem::test
