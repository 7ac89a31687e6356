// The list of bench_convolutions equals the convolutions in a step of the benchmark's networks
// (bench/worker.cpp).
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "autograd/observers.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "bench/conv_shapes.h"
#include "core/shapes_backend.h"
#include "models/dcgan.h"
#include "models/registry.h"
#include "models/resnet.h"
#include "models/unet.h"
#include "nn/device.h"
#include "nn/scopes.h"

using namespace tandem;
using namespace tandem::models;

namespace {

using cpu::onednn::Pass;
// Pass, and the shapes of image, filter and result: they say stride and padding as well, but for those that
// give the same result.
using Key = std::tuple<int, std::string, std::string, std::string>;
using Counts = std::map<Key, int>;

class Passes final : public OpObserver {
 public:
  void after_forward(const OpInfo& op, std::span<const Tensor> in, std::span<const Tensor> out) override {
    if (&op == &ops::Conv2d::info) add(Pass::forward, in[0], in[1], out[0]);
    if (&op == &ops::Conv2dInputGradient::info || &op == &ops::ConvTranspose2d::info)
      add(Pass::input_gradient, out[0], in[1], in[0]);
    if (&op == &ops::Conv2dFilterGradient::info) add(Pass::filter_gradient, in[0], out[0], in[1]);
  }
  const Counts& counts() const { return counts_; }

 private:
  void add(Pass pass, const Tensor& image, const Tensor& filter, const Tensor& result) {
    ++counts_[{static_cast<int>(pass), to_string(image.shape()), to_string(filter.shape()),
               to_string(result.shape())}];
  }
  Counts counts_;
};

Counts listed(std::string_view name) {
  Counts counts;
  for (const bench::Network& network : bench::networks()) {
    if (network.name != name) continue;
    for (const auto& [p, passes] : network.layers) {
      const Shape image{p.batch, p.height, p.width, p.channels},
          filter{p.out_channels, p.kernel_height, p.kernel_width, p.channels / p.options.groups},
          result{p.batch, p.out_height, p.out_width, p.out_channels};
      for (int pass = 0; pass < 3; ++pass)
        if (passes[static_cast<std::size_t>(pass)] > 0)
          counts[{pass, to_string(image), to_string(filter), to_string(result)}] =
              passes[static_cast<std::size_t>(pass)];
    }
  }
  return counts;
}

Tensor on_shapes(const Shape& shape) { return Tensor::empty(shape, {.device = kShapes}); }

template <class Work>
Counts counted(const Work& work) {
  Passes passes;
  const ObserverScope observed(passes);
  work();
  return passes.counts();
}

// One filter a channel.
Counts depthwise(const Counts& all) {
  Counts some;
  for (const auto& [key, count] : all)
    if (std::get<2>(key).ends_with(",1]")) some[key] = count;
  return some;
}

Counts of_a_step(nn::Module& model, const Shape& images) {
  return counted([&] { backward(sum(model(on_shapes(images)))); });
}

}  // namespace

TEST_CASE("the convolutions of bench_convolutions are those of its networks") {
  const nn::BuildDevice building(kShapes);
  CHECK(of_a_step(*resnet(20, {.in_channels = 1, .num_classes = 10}), {128, 28, 28, 1}) ==
        listed("resnet20"));
  CHECK(of_a_step(*resnet(50, {.in_channels = 3, .num_classes = 1000}), {16, 224, 224, 3}) ==
        listed("resnet50"));
  UNet unet({.in_channels = 1, .num_classes = 11, .width = 16, .levels = 3});
  CHECK(of_a_step(unet, {16, 64, 64, 1}) == listed("unet"));

  const auto ssdlite = create("ssdlite320_mobilenet_v3", {}, {.classes = 91});
  const Counts step = counted([&] {
    const TensorList outputs = ssdlite->all_outputs({on_shapes({8, 320, 320, 3})});
    backward(sum(outputs[0]) + sum(outputs[1]));
  });
  CHECK(depthwise(step) == listed("ssdlite320"));

  Dcgan pair({.image_size = 32, .channels = 1, .noise = 100, .width = 32});
  const auto made = [&] { return pair.generator()(on_shapes({64, 1, 1, 100})); };
  const auto judged = [&](const Tensor& images) { return sum(pair.discriminator()(images)); };
  const Counts iteration = counted([&] {
    const Tensor images = [&] {
      const NoGrad no_grad;
      return made();
    }();
    backward(judged(on_shapes({64, 32, 32, 1})) + judged(images));
    const Tensor again = made();
    const nn::Frozen frozen(pair.discriminator());
    backward(judged(again));
  });
  CHECK(iteration == listed("dcgan"));
}
