// Detectors start from files that other programs wrote.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"
#include "models/resnet.h"
#include "models/ssd.h"
#include "models/ssd_bodies.h"
#include "models/weights.h"

using namespace tandem;

namespace {

struct ForeignFile {
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tandem_foreign_{}.safetensors", ::getpid()))
          .string();
  ~ForeignFile() { std::filesystem::remove(path); }
};

using Named = std::vector<safetensors::NamedTensor>;

std::shared_ptr<models::Ssd> resnet_detector(std::uint64_t seed) {
  const RandomScope scope(seed, 0, 0);
  return std::make_shared<models::Ssd>(
      std::make_shared<models::ResNetDetectorBody>(18),
      models::SsdOptions{.num_classes = 3, .anchors = models::anchor_grid("coco300")});
}

std::vector<float> values(nn::Module& module, const std::string& name) {
  for (const Parameter& parameter : module.parameters())
    if (parameter.name() == name) return parameter.value().to_vector<float>();
  FAIL("no parameter " << name);
  return {};
}

std::string replaced(std::string name, const std::string& what, const std::string& by) {
  const std::size_t at = name.find(what);
  return at == std::string::npos ? name : name.replace(at, what.size(), by);
}

// From row a·K+k to row k·A+a.
Tensor by_number(const Tensor& rows, Index anchors) {
  const auto from = rows.to_vector<float>();
  std::vector<float> to(from.size());
  const auto count = static_cast<std::size_t>(rows.size(0)), a = static_cast<std::size_t>(anchors),
             k = count / a, each = from.size() / count;
  for (std::size_t anchor = 0; anchor < a; ++anchor)
    for (std::size_t number = 0; number < k; ++number)
      for (std::size_t i = 0; i < each; ++i)
        to[(number * a + anchor) * each + i] = from[(anchor * k + number) * each + i];
  return Tensor::from(to, rows.shape());
}

// The file that NVIDIA's program would write of these weights.
Named as_nvidia(models::Ssd& model) {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"backbone.feature_extractor.conv1", "feature_extractor.feature_extractor.0"},
      {"backbone.feature_extractor.bn1", "feature_extractor.feature_extractor.1"},
      {"backbone.feature_extractor.layer1", "feature_extractor.feature_extractor.4"},
      {"backbone.feature_extractor.layer2", "feature_extractor.feature_extractor.5"},
      {"backbone.feature_extractor.layer3", "feature_extractor.feature_extractor.6"},
      {"backbone.additional_blocks", "additional_blocks"},
      {"head.classification_head.module_list", "conf"},
      {"head.regression_head.module_list", "loc"}};
  Named file;
  for (auto [name, tensor] : models::weights_of(model)) {
    if (name.starts_with("head.")) {
      const char level = name[name.find("module_list.") + 12];
      tensor = by_number(tensor, level == '0' || level >= '4' ? 4 : 6);
    }
    for (const auto& [here, there] : names) name = replaced(name, here, there);
    file.emplace_back(name, tensor);
  }
  return file;
}

}  // namespace

TEST_CASE("NVIDIA's files load whole, with their heads in the order here", "[ssd]") {
  const ForeignFile file;
  const auto first = resnet_detector(1), second = resnet_detector(2);
  safetensors::write(file.path, as_nvidia(*first));
  const models::LoadReport report = models::load_weights(*second, file.path);  // strict
  CHECK(report.loaded.size() == models::weights_of(*first).size());
  for (const Parameter& parameter : first->parameters()) {
    INFO(parameter.name());
    CHECK(parameter.value().to_vector<float>() == values(*second, parameter.name()));
  }
  // Of other classes: refused, by the names here.
  Named file_of_others = as_nvidia(*first);
  for (auto& [name, tensor] : file_of_others)
    if (name == "conf.1.bias") tensor = Tensor::zeros({7});
  safetensors::write(file.path, file_of_others);
  CHECK_THROWS_WITH(models::load_weights(*second, file.path),
                    Catch::Contains("head.classification_head.module_list.1.bias is [7], here [18]"));
}

// There boxes are ordered by level, number within a cell, row, column (tests/golden/ssd_vectors.py). A file
// whose biases are its own numbers of level and anchor says for each box here which one of a cell it is
// there.
TEST_CASE("boxes in the order of NVIDIA's files", "[ssd]") {
  const models::AnchorGrid grid = models::anchor_grid("coco300");
  const ForeignFile file;
  const auto detector = resnet_detector(1);
  Named numbered = as_nvidia(*detector);
  for (auto& [name, tensor] : numbered) {
    if (!name.starts_with("loc.")) continue;
    const auto level = static_cast<std::size_t>(name[4] - '0');
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()), 0.0F);
    const auto anchors = static_cast<std::size_t>(grid.levels[level].per_cell());
    if (name.ends_with("bias"))  // of channel k·A+a: a, level, k
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(100 * (i % anchors) + 10 * level + i / anchors);
    tensor = Tensor::from(values, tensor.shape());
  }
  safetensors::write(file.path, numbered);
  models::load_weights(*detector, file.path);
  detector->eval();
  const NoGrad no_grad;
  const auto codes = (*detector)(Tensor::zeros({1, 300, 300, 3})).codes.to_vector<float>();
  std::vector<Index> theirs;
  Index first = 0;
  for (std::size_t level = 0; level < grid.levels.size(); ++level) {
    const Index cells = grid.levels[level].cells * grid.levels[level].cells,
                per_cell = grid.levels[level].per_cell();
    for (Index i = 0; i < cells * per_cell; ++i) {
      const float* const code = codes.data() + 4 * (first + i);
      const Index anchor = static_cast<Index>(code[0]) / 100;
      for (std::size_t k = 0; k < 4; ++k)
        if (code[k] != static_cast<float>(100 * static_cast<std::size_t>(anchor) + 10 * level + k)) FAIL(i);
      theirs.push_back(first + anchor * cells + i / per_cell);
    }
    first += cells * per_cell;
  }
  CHECK(theirs[1] == 1444);
  CHECK(theirs[5] == 1445);
  CHECK(theirs[781] == 1639);
  CHECK(theirs[8267] == 8096);
  CHECK(theirs[8731] == 8731);
  const auto boxes = grid.boxes().to_vector<double>();
  const std::array across{.0133333, .04, .0666667, .0933333, .12};
  for (std::size_t i = 0; i < across.size(); ++i) {
    const auto here = std::ranges::find(theirs, static_cast<Index>(i)) - theirs.begin();
    const double* const box = boxes.data() + 4 * here;
    CAPTURE(i, here);
    CHECK(box[0] == Approx(across[i]).epsilon(1e-5));
    CHECK(box[1] == Approx(.0133333).epsilon(1e-5));
    CHECK(box[2] == Approx(.07));
    CHECK(box[3] == Approx(.07));
  }
}

TEST_CASE("a residual detector starts from torchvision's classifier", "[ssd]") {
  const ForeignFile file;
  const RandomScope scope(3, 0, 0);
  const auto classifier = models::resnet(18, {.num_classes = 1000});
  models::save_weights(*classifier, file.path);
  const auto detector = resnet_detector(1);
  const auto head = values(*detector, "head.classification_head.module_list.0.weight");
  CHECK_THROWS_WITH(models::load_weights(*detector, file.path), Catch::Contains("unexpected"));
  const auto report = models::load_weights(*detector, file.path, {.strict = false});
  CHECK(report.mismatched.empty());
  for (const char* const name :
       {"conv1.weight", "bn1.bias", "layer2.0.downsample.0.weight", "layer3.1.conv2.weight"})
    CHECK(values(*classifier, name) == values(*detector, std::string("backbone.feature_extractor.") + name));
  CHECK(head == values(*detector, "head.classification_head.module_list.0.weight"));
  for (const std::string& name : report.missing)
    CHECK((name.starts_with("head.") || name.starts_with("backbone.additional_blocks.")));
  for (const std::string& name : report.unexpected)
    CHECK((name.starts_with("layer4.") || name.starts_with("fc.")));
}

TEST_CASE("a detector on VGG-16 starts from torchvision's classifier", "[ssd]") {
  const ForeignFile file;
  Named classifier;
  const auto convolution = [&](int place, Index out, Index in, double value) {
    classifier.emplace_back(fmt::format("features.{}.weight", place), Tensor::full({out, in, 3, 3}, value));
    classifier.emplace_back(fmt::format("features.{}.bias", place), Tensor::full({out}, value));
  };
  convolution(0, 64, 3, 0.5);
  convolution(21, 512, 512, 21.0);
  convolution(24, 512, 512, 24.0);
  convolution(28, 512, 512, 28.0);
  classifier.emplace_back("classifier.6.bias", Tensor::zeros({1000}));
  safetensors::write(file.path, classifier);
  models::Ssd detector(std::make_shared<models::VggDetectorBody>(models::vgg_extras_300()),
                       {.num_classes = 3, .anchors = models::anchor_grid("voc300")});
  const auto report = models::load_weights(detector, file.path, {.strict = false});
  CHECK(report.loaded.size() == 8);
  CHECK(report.unexpected == std::vector<std::string>{"classifier.6.bias"});
  CHECK(values(detector, "backbone.features.21.bias").front() == 21.0F);
  CHECK(values(detector, "backbone.extra.0.1.weight").back() == 24.0F);
  CHECK(values(detector, "backbone.extra.0.5.bias").front() == 28.0F);
}

// The 71 tensors of its state dict, 35,641,826 numbers.
TEST_CASE("torchvision's SSD300 on VGG-16 loads whole", "[ssd]") {
  const ForeignFile file;
  Named state{{"backbone.scale_weight", Tensor::full({512}, 20.0)}};
  double value = 0.0;
  const auto convolution = [&](const std::string& name, Index out, Index in, Index kernel) {
    state.emplace_back(name + ".weight", Tensor::full({out, in, kernel, kernel}, ++value));
    state.emplace_back(name + ".bias", Tensor::full({out}, -value));
  };
  Index in = 3;
  for (const auto& [place, out] : std::vector<std::pair<int, Index>>{{0, 64},
                                                                     {2, 64},
                                                                     {5, 128},
                                                                     {7, 128},
                                                                     {10, 256},
                                                                     {12, 256},
                                                                     {14, 256},
                                                                     {17, 512},
                                                                     {19, 512},
                                                                     {21, 512}}) {
    convolution(fmt::format("backbone.features.{}", place), out, in, 3);
    in = out;
  }
  for (const int place : {1, 3, 5}) convolution(fmt::format("backbone.extra.0.{}", place), 512, 512, 3);
  convolution("backbone.extra.0.7.1", 1024, 512, 3);
  convolution("backbone.extra.0.7.3", 1024, 1024, 1);
  in = 1024;
  for (const auto& [place, out] :
       std::vector<std::pair<int, Index>>{{1, 512}, {2, 256}, {3, 256}, {4, 256}}) {
    convolution(fmt::format("backbone.extra.{}.0", place), out / 2, in, 1);
    convolution(fmt::format("backbone.extra.{}.2", place), out, out / 2, 3);
    in = out;
  }
  const std::array<Index, 6> channels{512, 1024, 512, 256, 256, 256}, anchors{4, 6, 6, 6, 4, 4};
  for (std::size_t map = 0; map < channels.size(); ++map) {
    convolution(fmt::format("head.classification_head.module_list.{}", map), 91 * anchors[map], channels[map],
                3);
    convolution(fmt::format("head.regression_head.module_list.{}", map), 4 * anchors[map], channels[map], 3);
  }
  CHECK(state.size() == 71);
  safetensors::write(file.path, state);
  models::Ssd detector(
      std::make_shared<models::VggDetectorBody>(models::vgg_extras_300()),
      {.num_classes = 91, .anchors = models::anchor_grid("coco300"), .clip = models::AnchorClip::wh});
  CHECK(detector.parameter_count() == 35'641'826);
  CHECK(models::load_weights(detector, file.path).loaded.size() == 71);
  for (const auto& [name, tensor] : state) {
    INFO(name);
    CHECK(values(detector, name).back() == tensor.to_vector<float>().back());
  }
}
