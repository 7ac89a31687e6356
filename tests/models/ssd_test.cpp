// SSD's heads: one convolution per map for both equals one convolution each. Anchors move with the detector's
// device.
#include "models/ssd.h"

#include <catch2/catch.hpp>

#include "autograd/engine.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "core/backend.h"
#include "core/kernels/random.h"
#include "core/shapes_backend.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

// Gives maps that it is handed.
class Handed final : public models::DetectorBody {
 public:
  explicit Handed(TensorList maps) : maps_(std::move(maps)) {}
  TensorList maps(const Tensor&) override { return maps_; }
  std::vector<Index> channels() const override {
    std::vector<Index> channels;
    for (const Tensor& map : maps_) channels.push_back(map.size(3));
    return channels;
  }

 private:
  TensorList maps_;
};

void check_close(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(x[i] == Approx(y[i]).epsilon(1e-4).margin(1e-4));
}

models::AnchorGrid grid_of(const std::vector<Index>& cells) {
  models::AnchorGrid grid{.image_size = 64, .levels = {}};
  for (const Index count : cells)
    grid.levels.push_back({.cells = count, .size = 16, .next_size = 32, .ratios = {2}});
  return grid;
}

Parameter named(const nn::Module& module, const std::string& name) {
  for (const Parameter& each : module.parameters())
    if (each.name() == name) return each;
  FAIL("no parameter " << name);
  return {};
}

// Of one head, map by map.
Tensor one_head(const nn::Module& ssd, const std::string& name, const TensorList& maps, Index values) {
  TensorList levels;
  for (std::size_t level = 0; level < maps.size(); ++level) {
    const std::string at = "head." + name + ".module_list." + std::to_string(level);
    const Tensor y =
        conv2d(maps[level], named(ssd, at + ".weight"), named(ssd, at + ".bias"), {.padding = {1, 1}});
    levels.push_back(reshape(y, {y.size(0), -1, values}));
  }
  return concat(levels, 1);
}

TensorList gradients_of(const nn::Module& module) {
  TensorList gradients;
  for (const Parameter& each : module.parameters()) gradients.push_back(each.gradient());
  return gradients;
}

}  // namespace

TEST_CASE("both heads of a map are one convolution", "[models][detection]") {
  // 4 anchors a cell: 28 + 16 channels, filled up to 48, and 48 + 16, which need nothing.
  for (const Index classes : {Index{7}, Index{12}}) {
    CAPTURE(classes);
    const TensorList maps{test::random_tensor({2, 6, 6, 8}), test::random_tensor({2, 3, 3, 16})};
    models::Ssd ssd(std::make_shared<Handed>(maps), {.num_classes = classes, .anchors = grid_of({6, 3})});
    for (const Parameter& each : ssd.parameters())  // biases start at 0
      backend_for({}).random().random_normal({.seed = 5}, each.value(), 0.0, 0.1);
    const auto output = ssd(test::random_tensor({2, 64, 64, 3}));
    const Tensor scores = one_head(ssd, "classification_head", maps, classes);
    const Tensor codes = one_head(ssd, "regression_head", maps, 4);
    check_close(output.scores, scores);
    check_close(output.codes, codes);
    const Tensor weight = test::random_tensor(scores.shape(), DType::f32, 3);
    backward(sum(output.scores * weight) + sum(square(output.codes)));
    const TensorList together = gradients_of(ssd);
    ssd.clear_gradients();
    backward(sum(scores * weight) + sum(square(codes)));
    const TensorList apart = gradients_of(ssd);
    REQUIRE(together.size() == 8);
    for (std::size_t i = 0; i < apart.size(); ++i) check_close(together[i], apart[i]);
  }
}

TEST_CASE("anchors move with their detector", "[models][detection]") {
  const TensorList maps{Tensor::empty({1, 6, 6, 8}, {.device = kShapes})};
  models::Ssd ssd(std::make_shared<Handed>(maps), {.num_classes = 3, .anchors = grid_of({6})});
  CHECK(ssd.anchors().device() == Device{});
  ssd.to(kShapes);
  CHECK(ssd.anchors().device() == kShapes);
  const TensorList decoded = ssd.decoded(Tensor::empty({1, 64, 64, 3}, {.device = kShapes}));
  CHECK(decoded[0].shape() == Shape{1, 144, 4});
}
