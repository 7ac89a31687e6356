#include "tasks/classification/predict.h"

#include <fmt/core.h>

#include <filesystem>

#include "autograd/modes.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "data/image_file.h"
#include "data/io/byte_reader.h"
#include "data/npy.h"
#include "data/preparation.h"
#include "files/input.h"
#include "tasks/classification/answer.h"
#include "tasks/input_files.h"

namespace tandem::tasks {

namespace {

constexpr std::size_t kImagesAtOnce = 64;

struct Input {
  std::string name;  // "shoe.png", "shoes.npy[3]"
  Tensor image;      // as the data set's samples
};

// Moves the channels of an array to the end if the run's data has them first.
Tensor in_layout(Tensor array, const Shape& sample, datasets::Layout layout) {
  if (layout != datasets::Layout::nchw || sample.rank() != 3) return array;
  if (array.shape() == Shape{sample[2], sample[0], sample[1]})
    array = array.viewed(array.shape().inserted(0, 1));
  return datasets::channels_last(array, layout, "");
}

// The samples of an array: one if it has the rank of a sample, else one per row.
std::vector<Input> inputs_of_array(const std::string& path, const datasets::DatasetInfo& info,
                                   datasets::Layout layout) {
  const auto reader = datasets::open_file(path);
  Tensor array = datasets::read_npy(*reader);
  require(array.dtype() == info.dtype, "", "{}: holds {}, the model was trained on {}", path,
          name_of(array.dtype()), name_of(info.dtype));
  const Shape given = array.shape(), &sample = info.sample_shape;
  if (info.dtype != DType::i64) array = in_layout(std::move(array), sample, layout);
  const bool grey = sample.rank() == 3 && sample[2] == 1 && info.dtype != DType::i64;
  if (grey && array.rank() >= 2 && array.size(-1) != 1)
    array = array.viewed(array.shape().inserted(array.rank(), 1));
  if (array.rank() == sample.rank()) array = array.viewed(array.shape().inserted(0, 1));
  const bool fits = array.rank() == sample.rank() + 1 && (sample.rank() != 3 || array.size(-1) == sample[2]);
  require(fits, "", "{}: has shape {}, samples are {}{}", path, to_string(given), to_string(sample),
          datasets::looks_channels_first(given) ? "; bring its channels to the end" : "");
  datasets::require_finite(array, path);
  std::vector<Input> inputs;
  const Index count = array.size(0);
  for (Index i = 0; i < count; ++i) {
    const Tensor row = array.rows(i, 1);
    inputs.push_back(
        {count == 1 ? path : fmt::format("{}[{}]", path, i), row.viewed(row.shape().without(0))});
  }
  return inputs;
}

// Reader of the inputs.
struct Reading {
  datasets::Layout layout;
  datasets::ImageReading images;
};

std::vector<Input> inputs_of(const std::string& path, const datasets::DatasetInfo& info,
                             const Reading& reading) {
  if (std::filesystem::path(path).extension() == ".npy") return inputs_of_array(path, info, reading.layout);
  require(datasets::is_image_file(path), "",
          "{}: not an image; expected .jpg, .jpeg, .png, .npy, or a folder of images", path);
  require(info.dtype == DType::u8 && info.sample_shape.rank() == 3, "",
          "{}: the model was trained on {} of shape {}, not on images; pass .npy files", path,
          name_of(info.dtype), to_string(info.sample_shape));
  return {{path, datasets::read_image(path, static_cast<int>(info.sample_shape[2]), reading.images)}};
}

// Prepares samples for the model; images may have any size.
datasets::Pipeline pipeline_for(const SampleData& data, const std::vector<datasets::TransformSpec>& augment) {
  datasets::DatasetInfo any = data.info();
  if (datasets::are_images(any)) any.sample_shape = {0, 0, any.sample_shape[2]};
  return datasets::Pipeline(any, datasets::preparation(data.info(), data.image_size(), augment));
}

// Classifies inputs batch by batch, and prints the results.
class Predictor {
 public:
  Predictor(nn::Module& model, const datasets::Pipeline& pipeline, const datasets::DatasetInfo& info,
            Device device, const PredictRequest& arguments)
      : model_(model), pipeline_(pipeline), info_(info), device_(device), arguments_(arguments) {}

  void add(std::vector<Input> inputs) {
    for (Input& input : inputs) {
      waiting_.push_back(std::move(input));
      if (waiting_.size() == kImagesAtOnce) finish();
    }
  }

  void finish() {
    if (waiting_.empty()) return;
    const NoGrad no_grad;
    const Shape& sample = pipeline_.output_shape();
    const Tensor batch = Tensor::empty(sample.inserted(0, static_cast<Index>(waiting_.size())),
                                       {.dtype = pipeline_.output_dtype()});
    const std::size_t each = batch.bytes() / waiting_.size();
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      pipeline_.apply(waiting_[i].image, {}, static_cast<std::byte*>(batch.raw()) + i * each);
    const Tensor logits = model_(batch.to(device_));
    const std::vector<float> values = (arguments_.logits ? logits : softmax(logits)).to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.size(1));
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      print_answer(waiting_[i].name, {values.data() + i * classes, classes}, info_.class_names, arguments_);
    waiting_.clear();
  }

 private:
  nn::Module& model_;
  const datasets::Pipeline& pipeline_;
  const datasets::DatasetInfo& info_;
  const Device device_;
  const PredictRequest& arguments_;
  std::vector<Input> waiting_;
};

}  // namespace

void print_predictions(nn::Module& model, const SampleData& data, const ClassificationOptions::Data& options,
                       const PredictRequest& request, Device device) {
  require(!request.inputs.empty(), "",
          "predict: inputs are missing: image files, folders of them, or arrays (.npy)");
  const std::vector<std::string> files = files_of(request.inputs);
  const datasets::Pipeline pipeline = pipeline_for(data, options.augment);
  const options::Value layout = options.set.set.value("layout");  // null of what has no arrays
  const Reading reading{
      layout.text.empty() ? datasets::Layout::automatic : datasets::layout_from_name(layout.text),
      options.set.common.image_reading()};
  Predictor predictor(model, pipeline, data.info(), device, request);
  for (const std::string& file : files) predictor.add(inputs_of(file, data.info(), reading));
  predictor.finish();
}

}  // namespace tandem::tasks
