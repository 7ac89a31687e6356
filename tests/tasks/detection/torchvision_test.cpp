// SSD300 on VGG-16 against torchvision's, in FP64: scores, codes, loss, each gradient, and detections.
// tests/golden/ssd.py makes the values; weights and images come from the same hash here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "models/box_finder.h"
#include "models/multibox.h"
#include "models/ssd.h"
#include "models/ssd_bodies.h"
#include "tests/golden/found.h"
#include "tests/golden/gradients.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

using namespace tandem;

namespace {

// PyTorch's own FP32 is this far from its FP64 (the file's metadata): scores and codes 2.7e-6, the worst
// gradient 9.6e-3, since of millions of activations some lie at the kink of relu.
constexpr double kOutputs = 2e-5, kGradients = 3e-2;
constexpr Index kSide = 300, kSampled = 512;

models::Ssd ssd300_vgg16() {
  return {std::make_shared<models::VggDetectorBody>(models::vgg_extras_300()),
          {.num_classes = 91, .anchors = models::anchor_grid("coco300"), .clip = models::AnchorClip::wh}};
}

// As in ssd.py.
Tensor true_boxes() {
  return test::floats({.25f, .4f, .75f, .8f,  17, .1f, .1f, .2f, .22f, 1, .05f, .55f, .35f, .95f, 90,
                       .4f,  .3f, .9f,  .95f, 44, 0,   0,   0,   0,    0, 0,    0,    0,    0,    0},
                      {2, 3, 5});
}

void check_sampled(const Tensor& output, const std::string& name, const safetensors::File& golden) {
  INFO(name);
  const auto some = sampled(output.to_vector<double>(), name, kSampled);
  CHECK(test::normalised_error(some, golden.read(name).to_vector<double>()) < kOutputs);
}

}  // namespace

TEST_CASE("SSD300 on VGG-16 agrees with torchvision", "[detection]") {
  const safetensors::File golden(test::source_path("tests/golden/ssd300_vgg16.safetensors"));
  models::Ssd ssd = ssd300_vgg16();
  set_initial(ssd);
  const Tensor images = signed_unit("images" + golden.metadata().at("stream"), {2, kSide, kSide, 3});
  const models::AnchorOutput output = ssd(images);
  check_sampled(output.scores, "cls_logits", golden);
  check_sampled(output.codes, "bbox_regression", golden);
  const models::MultiboxLoss loss = models::multibox_loss(output, ssd.anchors(), true_boxes(), {});
  const auto parts = golden.read("loss").to_vector<double>();
  CHECK(loss.classes.item() == Approx(parts[0]).epsilon(kOutputs));
  CHECK(loss.boxes.item() == Approx(parts[1]).epsilon(kOutputs));
  check_found(models::find_boxes(output, ssd.anchors(), {})[0], golden);
  backward(loss.total);
  for (const Parameter& parameter : ssd.parameters()) check_gradient(parameter, golden, kGradients);
  // Every tensor of torchvision's, by its name.
  CHECK(golden.entries().size() == 6 + 2 * ssd.parameters().size());
}
