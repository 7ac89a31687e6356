// The loss of SSD300 against NVIDIA's (DeepLearningExamples), whose anchors have another order: anchors, both
// parts of the loss, and gradients. tests/golden/nvidia_loss.py makes the values; scores and codes come from
// the same hash here.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "files/safetensors.h"
#include "models/anchors.h"
#include "models/multibox.h"
#include "tests/golden/hashed.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;

namespace {

// PyTorch's own FP32 is 1e-7 away from its FP64 (the metadata of the file).
constexpr double kLoss = 3e-6, kGradient = 3e-6;
constexpr Index kImages = 3, kClasses = 81;
constexpr Index kAnchors = 64;  // that are compared themselves

using Values = std::vector<double>;

// Where NVIDIA has each of our anchors: of a level it has all cells of one anchor, then those of the next.
std::vector<Index> nvidia_places(const models::AnchorGrid& grid) {
  std::vector<Index> places;
  for (const models::AnchorLevel& level : grid.levels) {
    const Index cells = level.cells * level.cells, first = static_cast<Index>(places.size());
    for (Index cell = 0; cell < cells; ++cell)
      for (Index a = 0; a < level.per_cell(); ++a) places.push_back(first + a * cells + cell);
  }
  return places;
}

// NVIDIA's [N,channels,A] → [N,A,channels].
Tensor in_our_order(const Tensor& theirs, const std::vector<Index>& places) {
  const Index images = theirs.size(0), channels = theirs.size(1), count = theirs.size(2);
  const float* from = theirs.data<float>();
  std::vector<float> ours;
  for (Index n = 0; n < images; ++n)
    for (const Index place : places)
      for (Index c = 0; c < channels; ++c) ours.push_back(from[(n * channels + c) * count + place]);
  return test::floats(ours, {images, count, channels});
}

Tensor output(const std::string& stream, float scale, Index channels, const std::vector<Index>& places) {
  const Tensor theirs = signed_unit(stream, {kImages, channels, static_cast<Index>(places.size())});
  float* values = theirs.data<float>();
  for (Index i = 0; i < theirs.numel(); ++i) values[i] *= scale;
  return leaf(in_our_order(theirs, places));
}

// As in nvidia_loss.py; the second image has no object, two of the third want the same anchor.
Tensor true_boxes() {
  return test::floats({.25f, .4f, .75f, .8f,  17, .1f,  .105f, .2f,  .22f, 1,  .05f, .55f, .35f, .95f, 80,  //
                       0,    0,   0,    0,    0,  0,    0,     0,    0,    0,  0,    0,    0,    0,    0,   //
                       .3f,  .3f, .62f, .62f, 5,  .31f, .3f,   .63f, .62f, 44, .13f, .68f, .47f, .72f, 9},
                      {kImages, 3, 5});
}

// Where we have each of NVIDIA's anchors.
std::vector<std::size_t> our_places(const std::vector<Index>& places) {
  std::vector<std::size_t> ours(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) ours[static_cast<std::size_t>(places[i])] = i;
  return ours;
}

// Of values [...,width], row by row.
Values rows_of(const Tensor& tensor, const std::vector<std::size_t>& rows) {
  const auto values = tensor.to_vector<double>();
  const auto width = tensor.size(-1);
  Values chosen;
  for (const std::size_t row : rows) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row) * width;
    chosen.insert(chosen.end(), first, first + width);
  }
  return chosen;
}

// The file has the rows of all anchors that count, and the norm of all rows of each image.
void check_gradient_of(const Tensor& output, const std::string& name, const std::vector<std::size_t>& counted,
                       const safetensors::File& golden) {
  INFO(name);
  const Tensor gradient = gradient_of(output);
  const Values rows = rows_of(gradient, counted);
  CHECK(test::normalised_error(rows, golden.read("gradient/" + name).to_vector<double>()) < kGradient);
  const Values all = gradient.to_vector<double>(),
               norms = golden.read("gradient_norm/" + name).to_vector<double>();
  const std::size_t each = all.size() / norms.size();
  for (std::size_t n = 0; n < norms.size(); ++n) {
    CAPTURE(n);
    double squares = 0;
    for (std::size_t i = n * each; i < (n + 1) * each; ++i) squares += all[i] * all[i];
    CHECK(std::sqrt(squares) == Approx(norms[n]).epsilon(kGradient));
  }
}

}  // namespace

TEST_CASE("the loss of SSD300 is NVIDIA's", "[ssd]") {
  const safetensors::File golden(test::source_path("tests/golden/nvidia_loss.safetensors"));
  const models::AnchorGrid grid = models::anchor_grid("coco300");
  const Tensor anchors = grid.boxes(models::AnchorClip::cxcywh);
  const std::vector<Index> places = nvidia_places(grid);
  const std::vector<std::size_t> ours = our_places(places);
  REQUIRE(anchors.size(0) == static_cast<Index>(places.size()));
  std::vector<std::size_t> some;
  for (const std::uint32_t word : hashed("anchors", kAnchors)) some.push_back(ours[word % ours.size()]);
  CHECK(rows_of(anchors, some) == golden.read("anchors").to_vector<double>());

  const Tensor scores = output("scores", 4.0f, kClasses, places), codes = output("codes", 2.0f, 4, places);
  const Tensor on_device = anchors.to(test::test_device());
  const MatchedBoxes matched = match_boxes(on_device, true_boxes());
  const auto images = golden.read("image").to_vector<std::int64_t>(),
             anchor = golden.read("anchor").to_vector<std::int64_t>();
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < images.size(); ++i)
    counted.push_back(static_cast<std::size_t>(images[i]) * ours.size() +
                      ours[static_cast<std::size_t>(anchor[i])]);
  const auto labels = matched.label.to_vector<std::int64_t>();
  std::vector<std::int64_t> found;
  for (const std::size_t row : counted) found.push_back(labels[row]);
  CHECK(found == golden.read("label").to_vector<std::int64_t>());

  const auto loss = models::multibox_loss({scores, codes}, matched, {.normalize = LossShare::image});
  const Values expected = golden.read("losses").to_vector<double>();  // [N,2]
  CHECK(loss.classes.item() == Approx((expected[0] + expected[2] + expected[4]) / 3).epsilon(kLoss));
  CHECK(loss.boxes.item() == Approx((expected[1] + expected[3] + expected[5]) / 3).epsilon(kLoss));
  backward(loss.total);
  check_gradient_of(scores, "scores", counted, golden);
  check_gradient_of(codes, "codes", counted, golden);
}
