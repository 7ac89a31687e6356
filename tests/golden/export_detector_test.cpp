// Exported detectors against onnxruntime, which evaluated these files: tests/golden/export_detector.py stores
// its results and the SHA-256 of each file. With TANDEM_ONNX_PYTHON, a Python with onnxruntime, onnx, numpy
// and safetensors, it runs again. TANDEM_EXPORT_DIR keeps the files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "autograd/modes.h"
#include "export/onnx.h"
#include "files/digest.h"
#include "files/write.h"
#include "models/box_finder.h"
#include "models/ssd.h"
#include "models/ssd_bodies.h"
#include "models/ssd_lite.h"
#include "tests/golden/export_models.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

using namespace tandem;

namespace {

constexpr Index kImages = 3, kDetectorSide = 48;
constexpr nn::Suppression kSuppression{.most = 1000, .overlap = 0.45, .score = 0.3};

models::AnchorGrid grid_of_maps() {
  return {.image_size = kDetectorSide,
          .levels = {{.cells = 6, .size = 9, .next_size = 15, .ratios = {2}},
                     {.cells = 3, .size = 15, .next_size = 24, .ratios = {2, 3}},
                     {.cells = 2, .size = 24, .next_size = 36, .ratios = {2}}}};
}

std::shared_ptr<models::Ssd> small_detector() {
  auto ssd = std::make_shared<models::Ssd>(std::make_shared<models::SmallDetectorBody>(4, 3),
                                           models::SsdOptions{.num_classes = 4, .anchors = grid_of_maps()});
  set_initial(*ssd);
  set_statistics(*ssd);
  ssd->eval();
  return ssd;
}

Tensor images_of_detector() {
  return signed_unit("images of a detector", {kImages, kDetectorSide, kDetectorSide, 3});
}

std::string onnx_of(models::Ssd& ssd, bool suppress) {
  return exporting::onnx_model(ssd, {kDetectorSide, kDetectorSide, 3},
                               {.outputs = {"boxes", "scores"},
                                .graph = [&](const Tensor& images) { return ssd.decoded(images); },
                                .suppression = suppress ? std::optional(kSuppression) : std::nullopt});
}

double difference(const Tensor& tensor, const Tensor& expected) {
  REQUIRE(tensor.shape() == expected.shape());
  const auto a = tensor.to_vector<double>(), b = expected.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

using Selected = std::vector<std::array<std::int64_t, 3>>;

// Image, class and anchor, in ascending order.
Selected selected_here(models::Ssd& ssd) {
  const auto found = models::find_boxes(ssd(images_of_detector()), ssd.anchors(),
                                        {.score = kSuppression.score,
                                         .per_class = kSuppression.most,
                                         .overlap = kSuppression.overlap,
                                         .keep = 1000000});
  Selected all;
  for (std::size_t image = 0; image < found.size(); ++image)
    for (const models::FoundBox& each : found[image])
      all.push_back({static_cast<std::int64_t>(image), each.label, each.anchor});
  std::ranges::sort(all);
  return all;
}

}  // namespace

TEST_CASE("onnxruntime decodes and suppresses as Tandem does", "[export]") {
  const auto ssd = small_detector();
  const NoGrad no_grad;
  const TensorList decoded = ssd->decoded(images_of_detector());
  const testing::TemporaryDirectory temporary;
  const char* const kept = std::getenv("TANDEM_EXPORT_DIR");
  const std::filesystem::path folder = kept ? kept : temporary.path().string();
  std::filesystem::create_directories(folder);
  const std::string plain = onnx_of(*ssd, false), whole = onnx_of(*ssd, true);
  files::write_atomically((folder / "detector.onnx").string(), plain);
  files::write_atomically((folder / "detector_suppressed.onnx").string(), whole);
  safetensors::write(
      (folder / "detector.safetensors").string(),
      {{"images", Tensor(models::to_file_layout(images_of_detector(), ParameterLayout::filter))},
       {"boxes", decoded[0]},
       {"scores", decoded[1]}});
  if (const char* const python = std::getenv("TANDEM_ONNX_PYTHON")) {
    const std::string script = test::source_path("tests/golden/export_detector.py");
    CHECK(std::system((std::string(python) + " " + script + " " + folder.string()).c_str()) == 0);
  }
  if (kept) return;

  const safetensors::File golden(test::source_path("tests/golden/export_detector.safetensors"));
  CHECK(files::sha256(plain) == golden.metadata().at("detector.sha256"));
  CHECK(files::sha256(whole) == golden.metadata().at("detector_suppressed.sha256"));
  CHECK(difference(decoded[0], golden.read("boxes")) < 2e-5);
  CHECK(difference(decoded[1], golden.read("scores")) < 2e-5);
  Selected expected;
  const auto numbers = golden.read("selected").to_vector<std::int64_t>();
  for (std::size_t at = 0; at < numbers.size(); at += 3)
    expected.push_back({numbers[at], numbers[at + 1], numbers[at + 2]});
  std::ranges::sort(expected);
  CHECK(expected.size() > 30);
  CHECK(selected_here(*ssd) == expected);
}

namespace {

struct Detector {
  std::string name;
  std::shared_ptr<models::DetectorBody> body;
  const char* anchors;
  Index side;
  bool lite;
};

}  // namespace

TEST_CASE("every body of a detector has a graph", "[export]") {
  const std::vector<Detector> detectors{
      {"ssd_vgg", std::make_shared<models::VggDetectorBody>(models::vgg_extras_300()), "voc300", 300, false},
      {"ssd_resnet", std::make_shared<models::ResNetDetectorBody>(18), "coco300", 300, false},
      {"ssd_lite", std::make_shared<models::MobileNetDetectorBody>(), "ssdlite320", 320, true}};
  for (const auto& [name, body, anchors, side, lite] : detectors) {
    INFO(name);
    models::Ssd ssd(body, {.num_classes = 3, .anchors = models::anchor_grid(anchors), .lite = lite});
    set_initial(ssd);
    set_statistics(ssd);
    ssd.eval();
    const std::string file = exporting::onnx_model(
        ssd, {side, side, 3},
        {.outputs = {"boxes", "scores"}, .graph = [&](const Tensor& images) { return ssd.decoded(images); }});
    CHECK(static_cast<Index>(file.size()) > 4 * ssd.parameter_count());
    if (const char* const kept = std::getenv("TANDEM_EXPORT_DIR")) {
      const NoGrad no_grad;
      const Tensor images = signed_unit("images of a detector", {1, side, side, 3});
      const TensorList decoded = ssd.decoded(images);
      const std::string path = std::filesystem::path(kept) / name;
      files::write_atomically(path + ".onnx", file);
      safetensors::write(path + ".safetensors",
                         {{"images", models::to_file_layout(images, ParameterLayout::filter)},
                          {"boxes", decoded[0]},
                          {"scores", decoded[1]}});
    }
  }
}
