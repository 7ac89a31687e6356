// The two steps of a GAN, its latent vectors, and the classifier of its metrics.
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "config/task.h"
#include "core/error.h"
#include "core/random.h"
#include "data/fashion_mnist.h"
#include "data/image_file.h"
#include "data/registry.h"
#include "files/safetensors.h"
#include "files/write.h"
#include "metrics/frechet.h"
#include "models/dcgan.h"
#include "tasks/gan/classifier.h"
#include "tasks/gan/evaluation.h"
#include "tasks/gan/noise.h"
#include "tasks/sample_data.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"
#include "tests/support/tensors.h"
#include "train/setup.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;

namespace {

constexpr std::size_t kNone = 9;
const char* const kClassifier = "data/classifiers/fashion_mnist.safetensors";

// A task whose loss of one phase has no gradient when told so; it delegates everything.
class Poisonable final : public tasks::Task {
 public:
  explicit Poisonable(std::unique_ptr<tasks::Task> task) : task_(std::move(task)) {}

  std::size_t poisoned = kNone;  // the phase

  nn::Module& model() override { return task_->model(); }
  tasks::DataPtr data() const override { return task_->data(); }
  std::vector<tasks::Phase> phases() override { return task_->phases(); }
  Tensor loss(const datasets::Batch& batch, const tasks::LossContext& context) override {
    const Tensor loss = task_->loss(batch, context);
    if (context.phase != poisoned) return loss;
    // Adds 0; the root of 0 has no derivative.
    const Tensor weight = phases()[poisoned].trained->parameters().front().tensor();
    return add(loss, sum(sqrt(mul(weight, 0.0))));
  }
  datasets::SourcePtr training_source(Device device, Index size) const override {
    return task_->training_source(device, size);
  }
  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override {
    return task_->evaluation_source(split, device);
  }
  std::string validation_split() const override { return task_->validation_split(); }
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override {
    return task_->synthetic_batch(samples, seed, device);
  }
  std::unique_ptr<tasks::Evaluation> evaluation(bool details) override { return task_->evaluation(details); }
  std::string text_of(const datasets::Batch& batch) const override { return task_->text_of(batch); }
  std::string text_of_data() const override { return task_->text_of_data(); }
  std::vector<tasks::Signature> signatures() override { return task_->signatures(); }
  std::vector<std::string> predict_options() const override { return task_->predict_options(); }
  void predict(const tasks::PredictRequest& request, Device device) override {
    task_->predict(request, device);
  }

 private:
  std::unique_ptr<tasks::Task> task_;
};

config::Loaded loaded_with(std::vector<std::string> overrides) {
  overrides.emplace_back(
      R"(data={"name": "synthetic", "image_size": 16, "channels": 1, "batch_size": 8, "train_size": 64})");
  overrides.insert(overrides.end(), {"model.width=4", "model.noise=6"});
  return config::load("dcgan_fashion", overrides);
}

using Values = std::map<std::string, std::vector<double>>;

// Both networks in training.
class Run {
 public:
  explicit Run(const std::vector<std::string>& overrides)
      : loaded_(loaded_with(overrides)),
        task_(config::make_task(loaded_, config::describe_data(loaded_.config))),
        precision_(train::resolve_precision(loaded_, task_.model())),
        learners_(task_, loaded_, train::step_options(loaded_.config),
                  [&](double lr) { return train::make_schedule(loaded_.config, lr, 8, 8); }) {
    for (std::size_t phase = 0; phase < learners_.size(); ++phase)
      runners_.push_back(std::make_unique<train::StepRunner>(
          task_, phase, learners_[phase], *precision_, stages_,
          train::StepRunnerOptions{.batch_size = 8, .seed = 3, .number_by_applied = true}));
  }

  // One iteration; a phase may be poisoned, or not take place at all.
  void iterate(std::uint64_t number, std::size_t poisoned = kNone, std::size_t left_out = kNone) {
    const datasets::Batch batch = task_.synthetic_batch(8, number, {});
    task_.poisoned = poisoned;
    for (std::size_t phase = 0; phase < runners_.size(); ++phase) {
      if (phase == left_out) continue;
      tasks::CarriedState carry;
      runners_[phase]->backward(batch, carry);
      runners_[phase]->apply();
    }
    learners_.end_iteration();
  }

  optim::StepReport report(std::size_t phase) { return learners_[phase].step->synchronize(); }

  // Masters, moments and running statistics of a network.
  Values network(std::size_t phase) {
    const std::string name = phase == 0 ? "discriminator." : "generator.";
    Values values;
    for (const auto& [key, value] : learners_.state())
      if (key.starts_with(name) &&
          (key.find(".master.") != std::string::npos || key.find(".moment") != std::string::npos))
        values[key] = value.to_vector<double>();
    for (const nn::Statistic& s : task_.model().statistics())
      if (s.name.starts_with(name)) values[s.name] = s.live.to_vector<double>();
    return values;
  }

 private:
  config::Loaded loaded_;
  Poisonable task_;
  std::unique_ptr<amp::ResolvedPrecision> precision_;
  train::Learners learners_;
  train::StageTimer stages_;
  std::vector<std::unique_ptr<train::StepRunner>> runners_;
};

tasks::ImageForm fashion_form() {
  const safetensors::File file(tandem::test::source_path(kClassifier));
  const auto data =
      tasks::SampleData::recall(nlohmann::ordered_json::parse(file.metadata().at("tandem.data")));
  return {.info = data->info()};
}

void add(metrics::FeatureMoments& moments, const Tensor& rows) {
  moments.add(rows.to_vector<float>(), rows.size(1));
}

}  // namespace

TEST_CASE("a poisoned step of one network of a GAN is as if it had not been", "[gan]") {
  const std::vector<std::vector<std::string>> ways = {
      {"precision=fp32"},
      {"precision=amp_bf16"},
      {"precision=amp_fp16", R"(precision.scaler={"initial": 256, "scope": "global"})"},
      {"precision=amp_fp16", R"(precision.scaler={"initial": 256, "scope": "optimizer"})"},
      {"precision=amp_fp16", R"(precision.scaler={"initial": 256, "scope": "loss"})"}};
  for (const auto& way : ways) {
    for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
      INFO(way.front() << " " << way.back() << ", phase " << phase);
      Run poisoned(way), without(way);
      const Values fresh = poisoned.network(phase);
      for (const std::uint64_t i : {0, 1}) {
        poisoned.iterate(i);
        without.iterate(i);
      }
      const Values before = poisoned.network(phase), other = poisoned.network(1 - phase);
      REQUIRE(before.size() > 8);
      CHECK(before != fresh);
      poisoned.iterate(2, phase);
      without.iterate(2, kNone, phase);
      CHECK(poisoned.network(phase) == before);
      CHECK(poisoned.network(1 - phase) != other);
      CHECK(poisoned.network(1 - phase) == without.network(1 - phase));
      CHECK(poisoned.report(phase).skipped == 1);
      CHECK(poisoned.report(1 - phase).skipped == 0);
      for (const std::uint64_t i : {3, 4}) {
        poisoned.iterate(i);
        without.iterate(i);
      }
      CHECK(poisoned.report(phase).applied == 4);
      CHECK(poisoned.report(1 - phase).applied == 5);
      // Scales that fell would round subnormal numbers elsewhere.
      if (way.size() > 1) continue;
      for (const std::size_t each : {0, 1}) CHECK(poisoned.network(each) == without.network(each));
    }
  }
}

TEST_CASE("the network that does not learn is left as it is", "[gan]") {
  Run run({"precision=amp_fp16"});
  run.iterate(0);
  for (const std::size_t phase : {std::size_t{0}, std::size_t{1}}) {
    const Values before = run.network(1 - phase);
    run.iterate(1 + phase, kNone, 1 - phase);
    CHECK(run.network(1 - phase) == before);
  }
}

TEST_CASE("fixed noise is numbered by rows", "[gan]") {
  const auto rows = [](std::uint64_t seed, const std::vector<Index>& portions) {
    tasks::FixedNoise noise(seed, 5);
    std::vector<float> all;
    for (const Index portion : portions) {
      const Tensor z = noise.next(portion, {});
      CHECK(z.shape() == Shape{portion, 1, 1, 5});
      const auto values = z.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const std::vector<float> whole = rows(4, {200});
  CHECK(rows(4, {1, 63, 64, 65, 7}) == whole);
  CHECK(rows(4, {130, 70}) == whole);
  for (const Index first : {1, 63, 64, 100})
    CHECK(tasks::FixedNoise(4, 5, first).next(70, {}).to_vector<float>() ==
          std::vector<float>(whole.begin() + 5 * first, whole.begin() + 5 * (first + 70)));
  CHECK(rows(5, {200}) != whole);
  double sum = 0.0, squares = 0.0;
  for (const float value : whole) sum += value, squares += value * value;
  CHECK(sum / 1000 == Approx(0.0).margin(0.1));
  CHECK(squares / 1000 == Approx(1.0).margin(0.15));
  CHECK(std::vector<float>(whole.begin(), whole.begin() + 320) !=
        std::vector<float>(whole.begin() + 320, whole.begin() + 640));
}

TEST_CASE("an evaluation compares as many made images as real ones, up to a limit", "[gan]") {
  const RandomScope random(1, 0, 0);
  models::Dcgan model({.image_size = 32, .width = 2});
  model.eval();
  for (const Parameter& p : model.generator().parameters())  // images that differ
    if (p.value().rank() == 4)
      for (Index i = 0; i < p.value().numel(); ++i) p.value().data<float>()[i] *= 50.0F;
  const auto classifier = tasks::Classifier::of(tandem::test::source_path(kClassifier), fashion_form());
  tasks::GanEvaluation evaluation(model, classifier, 25, 2);
  metrics::FeatureMoments real, made;
  tasks::FixedNoise noise(0, 100);
  const NoGrad no_grad;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Tensor images = test::random_tensor({10, 32, 32, 1}, DType::f32, seed);
    datasets::Batch batch({{"image", images}}, 10);
    batch.first = 10 * static_cast<Index>(seed - 1);
    evaluation.add(batch);
    // The frame of two pixels belongs to neither.
    add(real, classifier->judge(slice(slice(images, 1, 2, 30), 2, 2, 30)).features);
    const Index portion = seed < 3 ? 10 : 5;
    const Tensor fake = model.generator()(noise.next(portion, {}));
    add(made, classifier->judge(slice(slice(fake, 1, 2, 30), 2, 2, 30)).features);
  }
  const tasks::Metrics metrics = evaluation.metrics();
  CHECK(tasks::metric(metrics, "fd_lenet") == Approx(metrics::frechet_distance(real, made)).epsilon(1e-6));
  const auto details = evaluation.details();
  CHECK(details["samples"] == 25);
  double entropy = 0.0;
  Index all = 0;
  for (const Index count : details["made_classes"].get<std::vector<Index>>()) {
    all += count;
    const double share = static_cast<double>(count) / 25.0;
    if (count > 0) entropy -= share * std::log(share);
  }
  CHECK(all == 25);
  CHECK(tasks::metric(metrics, "class_entropy") == Approx(entropy));
  CHECK(entropy > 0.1);
  const auto artifacts = evaluation.artifacts();
  REQUIRE(artifacts.size() == 1);
  CHECK(artifacts[0].kept);
  const auto bytes = std::as_bytes(std::span(artifacts[0].contents));
  CHECK(datasets::decode_image(bytes, "samples.png", 1).shape() == Shape{5 * 30 - 2, 5 * 30 - 2, 1});
}

TEST_CASE("the classifier that comes with Tandem knows the data that it is for", "[gan]") {
  const std::string path = tandem::test::source_path(kClassifier);
  const auto classifier = tasks::Classifier::of(path, fashion_form());
  CHECK(classifier->metric() == "fd_lenet");
  CHECK(classifier->classes() == 10);
  CHECK(classifier->description()["sha256"].get<std::string>().size() == 64);
  const auto judged = classifier->judge(Tensor::full({3, 28, 28, 1}, -1.0));
  CHECK(judged.features.shape() == Shape{3, 84});
  CHECK(judged.classes.size() == 3);

  const auto refused = [&](const std::function<void(tasks::ImageForm&)>& change) {
    tasks::ImageForm form = fashion_form();
    change(form);
    return user_error_of([&] { tasks::Classifier::of(path, form); });
  };
  CHECK_THAT(refused([](auto& form) { form.info.name = "digits"; }),
             Contains("was trained on fashion_mnist of [28,28,1], the data is digits"));
  CHECK_THAT(refused([](auto& form) { form.info.sample_shape = {32, 32, 1}; }), Contains("[32,32,1]"));
  CHECK_THAT(refused([](auto& form) { form.info.dtype = DType::f32; }), Contains("was trained on"));
  CHECK_THAT(refused([](auto& form) { form.image_size = 16; }), Contains("other resizing or cropping"));
  CHECK_THAT(refused([](auto& form) {
               form.steps = {{"resize", {{"size", {16.0}}}}};
             }),
             Contains("other resizing or cropping"));
  CHECK_THAT(user_error_of([] { tasks::Classifier::of({}, {.info = {.name = "kites"}}); }),
             Contains("Tandem has no classifier for kites"));

  const testing::TemporaryDirectory directory;
  directory.write("text", "all right");
  CHECK_THAT(user_error_of([&] { tasks::Classifier((directory.path() / "text").string()); }),
             Contains("text"));
  directory.write("run/config.json", "{\"model\": ");
  CHECK_THAT(user_error_of([&] { tasks::Classifier((directory.path() / "run").string()); }),
             Contains("config.json"));
  directory.write("new/config.json", R"({"model": "lenet5"})");
  CHECK_THAT(user_error_of([&] { tasks::Classifier((directory.path() / "new").string()); }),
             Contains("has no best checkpoint yet"));
}

TEST_CASE("features of test images are near those of training images", "[gan][fashion_mnist]") {
  if (!std::filesystem::exists(datasets::kFashionMnistFolder)) {
    WARN("skipped: Debian's package dataset-fashion-mnist is not installed");
    return;
  }
  const auto sets = datasets::read_fashion_mnist();
  const auto classifier = tasks::Classifier::of({}, fashion_form());
  metrics::FeatureMoments training, test, inverted;
  Index right = 0;
  for (Index first = 0; first < 10000; first += 500) {
    std::vector<float> pixels[2];
    std::vector<std::int64_t> labels;
    for (Index i = first; i < first + 500; ++i) {
      const datasets::Sample samples[] = {sets.train->get(i), sets.test->get(i)};
      labels.push_back(samples[1].label);
      for (const std::size_t s : {0, 1})
        for (const auto value : samples[s].image.to_vector<std::uint8_t>())
          pixels[s].push_back(static_cast<float>(value) / 127.5F - 1.0F);
    }
    const Shape shape{500, 28, 28, 1};
    add(training, classifier->judge(Tensor::from(pixels[0], shape)).features);
    const Tensor images = Tensor::from(pixels[1], shape);
    const auto judged = classifier->judge(images);
    add(test, judged.features);
    add(inverted, classifier->judge(mul(images, -1.0)).features);
    for (std::size_t i = 0; i < labels.size(); ++i) right += judged.classes[i] == labels[i] ? 1 : 0;
  }
  CHECK(right == Approx(9095).margin(5));
  // The floor that docs/gan.md names.
  CHECK(metrics::frechet_distance(test, training) == Approx(0.0677).margin(0.002));
  CHECK(metrics::frechet_distance(test, inverted) == Approx(88.3).epsilon(0.01));
}
