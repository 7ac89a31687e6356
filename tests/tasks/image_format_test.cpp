// In which form a model is given its images.
#include "tasks/classification/image_format.h"

#include "config/load.h"
#include "core/random.h"
#include "tasks/classification/options.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "train/setup.h"

using namespace tandem;
using tasks::ImageFormat;

namespace {

const Device kGpu{DeviceType::cuda, 0};

struct Model {
  explicit Model(std::vector<std::string> overrides, const Shape& sample = {32, 32, 3})
      : loaded(config::load("resnet20_synthetic", overrides)) {
    const RandomScope random(1, 0, 0);
    model = models::build(loaded.config.task.as<tasks::ClassificationOptions>().model,
                          {.sample = sample, .classes = 10});
    plan = train::make_plan(loaded, *model);
  }

  config::Loaded loaded;
  nn::ModulePtr model;
  std::unique_ptr<amp::Plan> plan;
};

std::string format_of(std::vector<std::string> overrides, const Shape& sample = {32, 32, 3},
                      Device device = kGpu) {
  Model made(std::move(overrides), sample);
  const ImageFormat format = tasks::image_format(*made.model, *made.plan, sample, device);
  // What is said is what the model takes.
  const Tensor images = Tensor::zeros(sample.inserted(0, 2));
  const Tensor given = tasks::in_format(images, format);
  const amp::Autocast autocast(*made.plan);
  CHECK((*made.model)(given).shape() == (*made.model)(images).shape());
  if (sample.rank() == 3 && format.channel_multiple == 1) {
    CHECK_THROWS_AS((*made.model)(tasks::in_format(images, {.channel_multiple = 4})), UserError);
  }
  return std::string(name_of(format.dtype)) + " " + std::to_string(format.channel_multiple);
}

std::string layers(const std::string& list) { return "model={\"layers\": [" + list + "]}"; }

const std::string kHead = R"(, {"type": "flatten"}, {"type": "linear", "out_features": 10})";

}  // namespace

TEST_CASE("images come in the type of the first convolution on a GPU", "[image_format]") {
  CHECK(format_of({"precision=amp_fp16"}) == "f16 4");
  CHECK(format_of({"precision=amp_bf16"}) == "bf16 4");
  CHECK(format_of({"precision=amp_fp16", "precision.level=O2"}) == "f16 4");
  CHECK(format_of({"precision=amp_bf16"}, {32, 32, 1}) == "bf16 4");
  CHECK(format_of({"precision=fp32"}) == "f32 1");
  CHECK(format_of({"precision=amp_fp16"}, {32, 32, 3}, Device{}) == "f32 1");
}

TEST_CASE("the precision of the layer and of the op count", "[image_format]") {
  CHECK(format_of({"precision=amp_fp16", R"(precision.layers={"^conv1$": "fp32"})"}) == "f32 1");
  CHECK(format_of({"precision=amp_fp16", R"(precision.layers={"^conv1$": "bf16"})"}) == "bf16 4");
  CHECK(format_of({"precision=amp_fp16", R"(precision.layers={"^layer1": "fp32"})"}) == "f16 4");
  CHECK(format_of({"precision=amp_fp16", R"(precision.lists={"deny": ["conv2d"]})"}) == "f32 1");
  CHECK(format_of({"precision=amp_fp16", R"(precision.lists={"infer": ["conv2d"]})"}) == "f32 1");
}

TEST_CASE("images stay as they are where anything else sees them", "[image_format]") {
  const std::string fp16 = "precision=amp_fp16";
  const std::string conv = R"({"type": "conv2d", "out_channels": 4, "kernel": 3, "padding": "same"})";
  CHECK(format_of({fp16, layers(conv + kHead)}, {8, 8, 3}) == "f16 4");
  CHECK(format_of({fp16, layers(R"({"type": "sequential", "layers": [)" + conv + "]}" + kHead)}, {8, 8, 3}) ==
        "f16 4");
  CHECK(format_of({fp16, layers(R"({"type": "identity"}, )" + conv + kHead)}, {8, 8, 3}) == "f32 1");
  CHECK(format_of({fp16, layers(R"({"type": "dropout", "p": 0.1}, )" + conv + kHead)}, {8, 8, 3}) == "f32 1");
  CHECK(
      format_of({fp16, layers(R"({"type": "conv2d", "out_channels": 3, "kernel": 1, "groups": 3})" + kHead)},
                {8, 8, 3}) == "f32 1");
  CHECK(format_of({fp16, layers(R"({"type": "conv2d", "name": "a", "out_channels": 3, "kernel": 1},
                                   {"type": "concat", "inputs": ["a", "input"]})" +
                                kHead)},
                  {8, 8, 3}) == "f32 1");
  CHECK(format_of({fp16, "model=mlp"}, {8, 8, 3}) == "f32 1");
  CHECK(format_of({fp16, "model=mlp"}, {64}) == "f32 1");
}

TEST_CASE("a format rounds once and pads with zeros", "[image_format]") {
  const Tensor images = test::random_tensor({2, 3, 2, 5}).to(Device{});
  CHECK(tasks::in_format(images, {}).is_same(images));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor given = tasks::in_format(images, {.dtype = dtype, .channel_multiple = 4});
    CHECK(given.dtype() == dtype);
    REQUIRE(given.shape() == Shape{2, 3, 2, 8});
    const auto before = images.to_vector<float>(), after = given.to_vector<float>();
    std::vector<float> expected;
    for (std::size_t i = 0; i < after.size(); ++i)
      expected.push_back(i % 8 < 5
                             ? visit_floating(dtype,
                                              [&]<class T>(TypeTag<T>) {
                                                return convert<float>(convert<T>(before[i / 8 * 5 + i % 8]));
                                              })
                             : 0.0f);
    CHECK(after == expected);
  }
}
