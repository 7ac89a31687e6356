#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/modes.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "data/image_file.h"
#include "data/io/byte_reader.h"
#include "data/npy.h"
#include "train/checkpoints.h"
#include "train/commands/commands.h"

namespace tandem::commands {

namespace {

constexpr std::size_t kBatch = 64;

struct Input {
  std::string name;  // "shoe.png", "shoes.npy[3]"
  Tensor image;      // as the data set's samples
};

// The samples of an array: one when it has the rank of a sample, else one for each of its rows.
std::vector<Input> inputs_of_array(const std::string& path, const datasets::DatasetInfo& info) {
  const auto reader = datasets::open_file(path);
  Tensor array = datasets::read_npy(*reader);
  require(array.dtype() == info.dtype, "", "{}: holds {}, the model was trained on {}", path,
          name_of(array.dtype()), name_of(info.dtype));
  const Shape& sample = info.sample_shape;
  const bool grey = sample.rank() == 3 && sample[2] == 1 && info.dtype != DType::i64;
  if (grey && array.rank() >= 2 && array.size(-1) != 1)
    array = array.viewed(array.shape().inserted(array.rank(), 1));
  if (array.rank() == sample.rank()) array = array.viewed(array.shape().inserted(0, 1));
  require(array.rank() == sample.rank() + 1, "", "{}: has shape {}, samples are {}", path,
          to_string(array.shape()), to_string(sample));
  std::vector<Input> inputs;
  const Index count = array.size(0);
  for (Index i = 0; i < count; ++i) {
    const Tensor row = array.rows(i, 1);
    inputs.push_back(
        {count == 1 ? path : fmt::format("{}[{}]", path, i), row.viewed(row.shape().without(0))});
  }
  return inputs;
}

std::vector<Input> inputs_of(const std::string& path, const datasets::DatasetInfo& info) {
  std::error_code error;
  require(std::filesystem::is_regular_file(path, error), "", "{}: no such file", path);
  if (std::filesystem::path(path).extension() == ".npy") return inputs_of_array(path, info);
  require(datasets::is_image_file(path), "", "{}: not an image; expected .jpg, .jpeg, .png or .npy", path);
  require(info.dtype == DType::u8 && info.sample_shape.rank() == 3, "",
          "{}: the model was trained on {} of shape {}, not on images; give it .npy files", path,
          name_of(info.dtype), to_string(info.sample_shape));
  return {{path, datasets::read_image(path, static_cast<int>(info.sample_shape[2]))}};
}

// Brings images to what the model takes; those of another size than the training images are resized first.
class Preparation {
 public:
  Preparation(const train::DataDescription& data, const std::vector<datasets::TransformSpec>& augment)
      : info_(data.info), pipeline_(datasets::evaluation_pipeline(train::without_samples(data), augment)) {
    const bool image = info_.sample_shape.rank() == 3 && info_.dtype != DType::i64;
    if (!image || info_.sample_shape.numel() == 0) return;
    train::DataDescription any = data;
    any.info.sample_shape = {0, 0, info_.sample_shape[2]};
    std::vector<datasets::TransformSpec> specs = datasets::evaluation_transforms(augment);
    specs.insert(
        specs.begin(),
        {"resize",
         {{"size",
           {static_cast<double>(info_.sample_shape[0]), static_cast<double>(info_.sample_shape[1])}}}});
    resizing_.emplace(any.info, specs);
  }

  const Shape& output_shape() const { return pipeline_.output_shape(); }

  void apply(const Input& input, void* out) const {
    const bool fits = input.image.shape() == info_.sample_shape || !resizing_;
    (fits ? pipeline_ : *resizing_).apply(input.image, {}, out);
  }

 private:
  datasets::DatasetInfo info_;
  datasets::Pipeline pipeline_;
  std::optional<datasets::Pipeline> resizing_;
};

std::string class_name(const datasets::DatasetInfo& info, std::size_t index) {
  return index < info.class_names.size() ? info.class_names[index] : std::to_string(index);
}

// `values` are probabilities, or logits where they are asked for. A value that is no number comes last, as
// null in JSON.
void print_prediction(const Input& input, const float* values, std::size_t classes,
                      const datasets::DatasetInfo& info, const PredictArguments& arguments) {
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return values[a] > values[b] || (values[a] == values[a] && values[b] != values[b]);
  });
  order.resize(std::min(classes, static_cast<std::size_t>(arguments.top)));
  if (arguments.json) {
    auto predictions = nlohmann::ordered_json::array();
    for (const std::size_t c : order)
      predictions.push_back({{"class", c},
                             {"name", class_name(info, c)},
                             {arguments.logits ? "logit" : "probability", values[c]}});
    const nlohmann::ordered_json line{{"input", input.name}, {"predictions", predictions}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  std::string text = input.name;
  for (const std::size_t c : order)
    text += arguments.logits ? fmt::format("  {} {:.4f}", class_name(info, c), values[c])
                             : fmt::format("  {} {:.1f} %", class_name(info, c), 100.0 * values[c]);
  fmt::print("{}\n", text);
}

}  // namespace

int predict(const PredictArguments& arguments) {
  const auto run = train::RunDirectory::open(arguments.run);
  const config::Loaded loaded = config::load(run.config(), arguments.overrides);
  train::prepare_machine(loaded);
  const std::string which = arguments.weights.empty() ? "best" : arguments.weights;
  const train::DataDescription data = train::saved_data(train::weights_path(run, which));
  const Preparation preparation(data, train::augmentations(loaded.config));
  const auto model = train::make_model(loaded, data, preparation.output_shape());
  train::load_run_weights(run, which, *model);
  const Device device = train::device_of(loaded.config);
  model->to(device);
  model->eval();

  std::vector<Input> inputs;
  for (const std::string& path : arguments.inputs) {
    auto more = inputs_of(path, data.info);
    inputs.insert(inputs.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  const NoGrad no_grad;
  for (std::size_t first = 0; first < inputs.size(); first += kBatch) {
    const std::size_t count = std::min(kBatch, inputs.size() - first);
    const Tensor batch = Tensor::empty(preparation.output_shape().inserted(0, static_cast<Index>(count)),
                                       {.dtype = datasets::batch_dtype(data.info)});
    const std::size_t each = batch.bytes() / count;
    for (std::size_t i = 0; i < count; ++i)
      preparation.apply(inputs[first + i], static_cast<std::byte*>(batch.raw()) + i * each);
    const Tensor logits = (*model)(batch.to(device));
    const std::vector<float> values = (arguments.logits ? logits : softmax(logits)).to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.size(1));
    for (std::size_t i = 0; i < count; ++i)
      print_prediction(inputs[first + i], values.data() + i * classes, classes, data.info, arguments);
  }
  return 0;
}

}  // namespace tandem::commands
