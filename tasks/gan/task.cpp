#include "tasks/gan/task.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/random.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "nn/scopes.h"
#include "tasks/families.h"
#include "tasks/gan/evaluation.h"
#include "tasks/gan/noise.h"
#include "tasks/task_factory.h"

namespace tandem::tasks {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDiscriminator = 0;  // phases, in order
constexpr Index kMostImages = 10'000;      // limit of one predict

// Padding on each side that brings images of the data to the model's size. Throws UserError if it exceeds a
// sixth of a side, because the model would learn a frame.
Index padding_of(const Shape& image, const Shape& made) {
  const Index rows = made[0] - image[0], columns = made[1] - image[1];
  require(rows == columns && rows >= 0 && rows % 2 == 0 && 6 * rows <= std::min(image[0], image[1]), "data",
          "images of {}×{}, but the model generates {}×{}: zero padding can fill up to a sixth, the same on "
          "all sides; add {{\"name\": \"resize\", \"size\": [{}, {}]}} to data.augment",
          image[0], image[1], made[0], made[1], made[0], made[1]);
  return rows / 2;
}

void require_of_images(const std::vector<datasets::TransformSpec>& augment) {
  for (const auto& step : augment) {
    const auto& info = datasets::transform_info(step.name);
    if (info.stage != datasets::TransformStage::sample)
      throw options::OptionError(
          "data.augment",
          fmt::format("{} does not apply to the images of a GAN, which have no labels and lie in [-1, 1]",
                      info.name));
  }
}

class GanRecipe final : public TaskFactoryOf<Gan, GanOptions, GanData> {
 public:
  using TaskFactoryOf::TaskFactoryOf;
  DataPtr open(SampleReport report) const override { return GanData::open(options(), report); }
  DataPtr describe() const override { return GanData::describe(options()); }
};

}  // namespace

Gan::Gan(const GanOptions& options, const Context& context, std::shared_ptr<const GanData> data)
    : options_(options),
      context_(context),
      data_(std::move(data)),
      splits_(data_->shared_samples(), context_.loading, context_.seed) {
  require_of_images(options_.data.augment);
  const Shape image = splits_.training_pipeline(steps(false)).output_shape();
  const RandomScope random(context_.seed, 0, 0);
  model_ = models::build_as<models::AdversarialPair>(options_.model, {.sample = image});
  padding_ = padding_of(image, model_->image());
}

// The configuration's, then scaling to [-1, 1] and zero padding.
std::vector<datasets::TransformSpec> Gan::steps(bool evaluation) const {
  std::vector<datasets::TransformSpec> steps =
      evaluation ? datasets::evaluation_transforms(options_.data.augment) : options_.data.augment;
  if (padding_ > 0) steps.push_back({"pad", {{"padding", {static_cast<double>(padding_)}}, {"fill", {0.0}}}});
  steps.push_back({"normalise", {{"mean", {0.5}}, {"std", {0.5}}}});
  return steps;
}

std::vector<Phase> Gan::phases() {
  return {{.name = "discriminator", .trained = &model_->discriminator(), .losses = 2},
          {.name = "generator", .trained = &model_->generator()}};
}

// Images from z, the first random draw in a loss.
Tensor Gan::made(Index samples, Device device) {
  const Tensor z = random_normal({samples, 1, 1, model_->noise()}, {.device = device});
  return model_->generator()(z);
}

Tensor Gan::judged(const Tensor& images, double as, const LossContext& context) {
  const Tensor scores = model_->discriminator()(images);
  if (context.ready) context.ready();
  return bce_with_logits(scores, Tensor::full(scores.shape(), as, {.device = scores.device()}));
}

Tensor Gan::loss(const datasets::Batch& batch, const LossContext& context) {
  const Tensor& real = batch["image"];
  if (context.phase == kDiscriminator) {
    if (context.loss == 0) return judged(real, 1.0, context);
    const Tensor images = [&] {
      const NoGrad no_grad;
      const nn::KeepStatistics keep(model_->generator());
      return made(real.size(0), real.device());
    }();
    return judged(images, 0.0, context);
  }
  const Tensor images = made(real.size(0), real.device());
  const nn::Frozen frozen(model_->discriminator());
  const nn::KeepStatistics keep(model_->discriminator());
  return judged(images, 1.0, context);
}

datasets::SourcePtr Gan::training_source(Device device, Index batch_size) const {
  return splits_.training_source(steps(false), device, batch_size);
}

datasets::SourcePtr Gan::evaluation_source(const std::string& split, Device device) const {
  return splits_.evaluation_source(steps(true), split, device);
}

datasets::Batch Gan::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape shape = splits_.training_pipeline(steps(false)).output_shape().inserted(0, samples);
  const bool nothing = device == kShapes;
  const Tensor image = Tensor::empty(shape, {DType::f32, nothing ? kShapes : Device{}, MemoryKind::data});
  if (!nothing)
    backend_for({}).random().random_uniform({.seed = seed, .purpose = RandomPurpose::synthetic_data}, image,
                                            -1.0, 1.0);
  return datasets::Batch({{"image", image}}, samples).to(device);
}

std::unique_ptr<Evaluation> Gan::evaluation(bool) {
  ensure(data_->classifier() != nullptr, "evaluation", "{} is only described", data_->info().name);
  return std::make_unique<GanEvaluation>(*model_, data_->classifier(), options_.eval.samples, padding_);
}

std::string Gan::text_of(const datasets::Batch& batch) const {
  return fmt::format("{}, z [{},1,1,{}]", to_string(batch["image"].shape()), batch.samples, model_->noise());
}

std::string Gan::text_of_data() const {
  std::string text = fmt::format("{} of {}", splits_.text_of(*training_source({}), "images"),
                                 to_string(data_->info().sample_shape));
  if (padding_ > 0) text += fmt::format(", {0} pixels of zero padding", padding_);
  if (data_->classifier()) {
    const Json classifier = data_->classifier()->description();
    text += fmt::format("; {} by {} (SHA-256 {})", data_->classifier()->metric(),
                        classifier["file"].get<std::string>(),
                        classifier["sha256"].get<std::string>().substr(0, 16));
  }
  return text;
}

std::vector<Signature> Gan::signatures() {
  return {{.module = &model_->generator(),
           .sample = {1, 1, model_->noise()},
           .path = "generator",
           .input = "noise",
           .outputs = {"images"}},
          {.module = &model_->discriminator(), .sample = model_->image(), .path = "discriminator"}};
}

std::map<std::string, std::string> Gan::export_metadata() const {
  const Shape image = model_->image();
  return {{"tandem.input", files::json_text(Json{{"layout", "NCHW"},
                                                 {"shape", {model_->noise(), Index{1}, Index{1}}},
                                                 {"distribution", "normal"},
                                                 {"mean", 0},
                                                 {"std", 1}})},
          {"tandem.output", files::json_text(Json{{"layout", "NHWC"},
                                                  {"shape", {image[0], image[1], image[2]}},
                                                  {"range", {-1, 1}},
                                                  {"padding", padding_}})}};
}

void Gan::predict(const PredictRequest& request, Device device) {
  const Index count = request.count.value_or(64);
  require(count >= 1 && count <= kMostImages, "", "predict: --count {}: expected 1 to {} images", count,
          kMostImages);
  require(!request.out.empty(), "", "predict: --out is missing: the PNG file to write");
  require(fs::path(request.out).extension() == ".png", "",
          "predict: --out {}: images are written as PNG; the file name must end in .png", request.out);
  const std::int64_t seed = request.seed.value_or(0);
  require(seed >= 0, "", "predict: --seed {}: a seed must not be negative", seed);
  const NoGrad no_grad;
  FixedNoise noise(static_cast<std::uint64_t>(seed), model_->noise());
  TensorList parts;
  for (Index done = 0; done < count;) {
    const Index portion = std::min<Index>(count - done, 256);
    const Tensor images = model_->generator()(noise.next(portion, device));
    parts.push_back(cast(without_padding(images, padding_), DType::f32).to(Device{}));
    done += portion;
  }
  files::write_atomically(request.out, png_grid(concat(parts, 0)));
  output::print("{}: {} images of {}×{}, seed {}\n", request.out, count, parts.front().size(1),
                parts.front().size(2), seed);
}

TaskRegistry::Entry gan_family() {
  return family_of<GanRecipe>("gan", "a generator of images against a discriminator");
}

}  // namespace tandem::tasks
