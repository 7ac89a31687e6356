#include "studies/advise/products.h"

#include <algorithm>

#include "amp/op_keys.h"
#include "amp/planned_policy.h"
#include "autograd/apply.h"
#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/recompute.h"
#include "studies/compare/statistics.h"
#include "train/planned.h"

namespace tandem::advise {

namespace {

constexpr int kRepeats = 7;

class Collector final : public OpObserver {
 public:
  explicit Collector(nn::Module& model) : keys_(model) {}

  std::vector<Product> products;

  void before_forward(const OpInfo&, std::span<const Tensor>) override { ++depth_; }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (--depth_ > 0 || !amp::is_planned(info, inputs)) return;
    amp::plan::OpKey key = keys_.next(info.name);
    if (!info.traits.products) return;
    products.push_back(product_of(info, inputs, outputs));
    products.back().key = std::move(key);
  }

 private:
  static Product product_of(const OpInfo& info, std::span<const Tensor> inputs,
                            std::span<const Tensor> outputs) {
    Product product{.size = info.traits.products(inputs, outputs)[0],
                    .input_gradient = inputs[0].requires_grad()};
    const auto* const conv = op_of<ops::Conv2d>(outputs[0]);
    if (conv) product.convolution = conv->options;
    if (!conv && &info != &ops::Linear::info) return product;
    product.x = inputs[0].shape();
    product.weight = conv ? inputs[1].shape() : Shape{product.size.n, product.size.k};
    if (product.size.count == 1) {
      product.inputs = product.weight.at(-1);
      product.outputs = product.weight[0];
    }
    return product;
  }

  int depth_ = 0;
  amp::OpKeys keys_;
};

// Timer of a product's forward and backward.
class Timed {
 public:
  Timed(const Product& product, Backend& backend, DType dtype) : product_(product), backend_(backend) {
    const TensorOptions options{dtype, backend.device(), MemoryKind::workspace};
    x_ = Tensor::full(product.x, 0.5, options);
    weight_ = Tensor::full(product.weight, 0.01, options);
    if (product.input_gradient) x_ = leaf(x_);
    weight_ = leaf(weight_);
  }

  double seconds() {
    const std::uint64_t first = backend_.timestamp();
    const Tensor y =
        product_.convolution ? conv2d(x_, weight_, {}, *product_.convolution) : linear(x_, weight_);
    const Tensor dy = y.detach();  // the values of the gradient do not matter
    Node& node = *node_of(y);
    const Needs::Input wanted[] = {{.wanted = product_.input_gradient}, {.wanted = true}, {}};
    std::vector<Tensor> given{dy}, found(3);
    node.backward(given, found, Needs(wanted, false));
    const double seconds = backend_.seconds_between(first, backend_.timestamp());
    backend_.clear_timestamps();
    return seconds;
  }

 private:
  const Product& product_;
  Backend& backend_;
  Tensor x_, weight_;
};

}  // namespace

Product Product::resized(Index new_inputs, Index new_outputs) const {
  Product other = *this;
  other.inputs = new_inputs;
  other.outputs = new_outputs;
  other.size.n = new_outputs;
  other.size.k = size.k / inputs * new_inputs;
  other.x = x.with(x.rank() - 1, new_inputs);
  other.weight = weight.with(0, new_outputs).with(weight.rank() - 1, new_inputs);
  return other;
}

std::int64_t Product::bytes() const {
  return 2 * (size.m * size.n * size.count + (resizable() ? x.numel() + weight.numel() : 0));
}

std::vector<Product> products_of(nn::Module& model, const std::function<Tensor()>& forward) {
  Collector collector(model);
  const ObserverScope ops(collector);
  const KeepActivations recorded;
  forward();
  return std::move(collector.products);
}

std::vector<Product> products_of(const config::Loaded& loaded, const tasks::DataPtr& data,
                                 std::size_t phase) {
  std::vector<Product> products;
  train::with_forward(loaded, data, phase, [&](nn::Module& model, const std::function<Tensor()>& forward) {
    products = products_of(model, forward);
  });
  return products;
}

std::vector<double> times_of(const std::vector<Product>& products, Backend& backend, DType dtype) {
  std::vector<Timed> timed;
  timed.reserve(products.size());
  for (const Product& product : products) timed.emplace_back(product, backend, dtype);
  std::vector<std::vector<double>> seen(products.size());
  for (int round = 0; round <= kRepeats; ++round)
    for (std::size_t i = 0; i < timed.size(); ++i) {
      const double seconds = timed[i].seconds();
      if (round > 0) seen[i].push_back(seconds);
    }
  std::vector<double> medians;
  for (auto& times : seen) medians.push_back(compare::quantile(std::move(times), 0.5));
  return medians;
}

}  // namespace tandem::advise
