#include "tasks/gan/classifier.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul_ops.h"
#include "core/error.h"
#include "core/random.h"
#include "data/preparation.h"
#include "data/resources.h"
#include "data/transforms/pipeline.h"
#include "files/digest.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/json_value.h"
#include "files/safetensors.h"
#include "models/model_options.h"
#include "models/weights.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "eval.features";
constexpr std::uint64_t kMaxJson = std::uint64_t{16} << 20;

// The classifier's part of a run's configuration.
struct Trained {
  models::ModelOptions model;
  std::vector<datasets::TransformSpec> augment;
  static options::Schema schema() {
    return options::Describe<Trained>()
        .key("model", &Trained::model, "the network", {.required = true})
        .key("augment", &Trained::augment, "transforms");
  }
};

Json json_of(const std::string& text, const std::string& where, const std::string& what) {
  return files::parse_json<Json>(text, where, what, {.depth = 64, .items = std::size_t{1} << 20});
}

// For the directory of a run (its files: runs/run_directory.h, runs/checkpoint_store.h).
Trained trained_in(const fs::path& run) {
  const fs::path file = run / "config.json";
  const auto text = files::read_text_if_there(file, kMaxJson);
  require(text.has_value(), kKey, "{}: is not a run: it has no config.json", run.string());
  const Json config = json_of(*text, file.string(), "the configuration");
  const auto part = [](const Json& of, const char* key) {
    return of.is_object() && of.contains(key) ? of[key] : Json();
  };
  const Json task = part(config, "task"), model = part(config, "model");
  require((task.is_null() || task == "classification") && !model.is_null(), kKey,
          "{}: is not a run that trained a classifier", run.string());
  options::Given given{{"model", files::from_json(model)}};
  if (const Json augment = part(part(config, "data"), "augment"); !augment.is_null())
    given.push_back({"augment", files::from_json(augment)});
  const options::Record record = options::bound(file.string(), Trained::schema(), given);
  return *static_cast<const Trained*>(record.data());
}

std::string best_weights_of(const fs::path& run) {
  const fs::path checkpoints = run / "checkpoints";
  std::string name = files::read_text_if_there(checkpoints / "best", 256).value_or("");
  name.erase(std::min(name.find('\n'), name.size()));
  const bool sound =
      name.starts_with("step-") && name.find_first_not_of("0123456789", 5) == std::string::npos;
  require(sound, kKey, "{}: has no best checkpoint yet", run.string());
  return (checkpoints / name / "weights.safetensors").string();
}

ImageForm form_in(const safetensors::File& file, const std::vector<datasets::TransformSpec>& augment) {
  const auto found = file.metadata().find("tandem.data");
  require(found != file.metadata().end(), kKey,
          "{}: has no description of its training data; use the weights that a run saved, or the run",
          file.path());
  const auto data = SampleData::recall(json_of(found->second, file.path(), "its description of the data"));
  return {.info = data->info(), .image_size = data->image_size(), .steps = lasting_steps(augment)};
}

bool alike(const std::vector<datasets::TransformSpec>& a, const std::vector<datasets::TransformSpec>& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.name == y.name && x.parameters == y.parameters; });
}

// The input of the linear layer whose result is the model's.
class LastLinear final : public OpObserver {
 public:
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (&info != &ops::Linear::info) return;
    input = inputs[0];
    output = outputs[0];
  }
  Tensor input, output;
};

}  // namespace

std::vector<datasets::TransformSpec> lasting_steps(const std::vector<datasets::TransformSpec>& augment) {
  std::vector<datasets::TransformSpec> steps = datasets::evaluation_transforms(augment);
  std::erase_if(steps, [](const auto& step) {
    return datasets::transform_info(step.name).stage == datasets::TransformStage::final;
  });
  return steps;
}

Classifier::Classifier(const std::string& path) : path_(path) {
  Trained trained;
  trained.model.spec = options::Given{{"name", model_name_}};
  const files::Kind kind = files::kind_of(path);
  require(kind != files::Kind::absent, kKey, "{}: there is no such file or run", path);
  if (kind == files::Kind::folder) {
    trained = trained_in(path);
    const options::Value* const name = trained.model.spec.find("name");
    model_name_ = name ? name->text : "";
  }
  file_ = kind == files::Kind::folder ? best_weights_of(path) : path;
  metric_ = model_name_ == "lenet5" ? "fd_lenet" : "fd_classifier";
  const safetensors::File file(file_);
  digest_ = files::sha256_of_file(file_);
  form_ = form_in(file, trained.augment);
  require(datasets::are_images(form_.info), kKey, "{}: was trained on {}, not on images", path,
          to_string(form_.info.sample_shape));

  const datasets::Pipeline pipeline(
      form_.info, datasets::with_sizes(form_.info, form_.image_size, trained.augment, /*evaluation=*/true));
  const RandomScope random(0, 0, 0);  // for weights that are replaced immediately
  model_ = models::build(trained.model, {.sample = pipeline.output_shape(),
                                         .classes = form_.info.classes,
                                         .kind = models::ModelKind::classifier});
  models::load_weights(*model_, file);
  model_->eval();
  // pixel·scale + offset, with pixel = (v + 1)·127.5.
  const datasets::Affine& affine = pipeline.affine();
  std::vector<float> scale, offset;
  for (std::size_t c = 0; c < affine.scale.size(); ++c) {
    scale.push_back(127.5F * affine.scale[c]);
    offset.push_back(127.5F * affine.scale[c] + affine.offset[c]);
  }
  scale_ = Tensor::from(scale, {static_cast<Index>(scale.size())});
  offset_ = Tensor::from(offset, {static_cast<Index>(offset.size())});
}

std::shared_ptr<Classifier> Classifier::of(const std::optional<std::string>& path, const ImageForm& images) {
  std::string file = path.value_or("");
  if (!path) {
    const std::string name = images.info.name + ".safetensors";
    const auto folder = datasets::find_shipped("classifiers", name);
    require(folder.has_value(), kKey,
            "Tandem has no classifier for {}; train one (task=classification, on the same data) and set this "
            "key to its run",
            images.info.name);
    file = (*folder / name).string();
  }
  const auto classifier = std::make_shared<Classifier>(file);
  classifier->require_for(images);
  return classifier;
}

void Classifier::require_for(const ImageForm& images) const {
  const datasets::DatasetInfo &own = form_.info, &theirs = images.info;
  require(own.name == theirs.name && own.sample_shape == theirs.sample_shape && own.dtype == theirs.dtype,
          kKey, "{}: was trained on {} of {}, the data is {} of {}", path_, own.name,
          to_string(own.sample_shape), theirs.name, to_string(theirs.sample_shape));
  require(form_.image_size == images.image_size && alike(form_.steps, images.steps), kKey,
          "{}: was trained on images with other resizing or cropping (data.image_size, data.augment)", path_);
}

Classifier::Judgement Classifier::judge(const Tensor& images) {
  const NoGrad no_grad;
  const PrecisionScope as_it_is(nullptr);
  const Device device = images.device();
  if (scale_.device() != device) {
    model_->to(device);
    scale_ = scale_.to(device);
    offset_ = offset_.to(device);
  }
  LastLinear last;
  Tensor scores;
  {
    const ObserverScope observed(last);
    scores = (*model_)(add(mul(images, scale_), offset_));
  }
  require(last.output.defined() && last.output.shares_storage(scores) && last.input.rank() == 2, kKey,
          "{}: its model does not end in a linear layer, whose input would be the features", path_);
  const Tensor features = last.input.to(Device{});
  const std::vector<float> values = scores.to_vector<float>();
  Judgement judgement{.features = features, .classes = {}};
  const auto classes = static_cast<std::size_t>(scores.size(1));
  for (auto row = values.begin(); row != values.end(); row += static_cast<std::ptrdiff_t>(classes))
    judgement.classes.push_back(std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row);
  return judgement;
}

Json Classifier::description() const {
  return {{"file", file_}, {"sha256", digest_}, {"model", model_name_}};
}

}  // namespace tandem::tasks
