// Keys of the "data" section. What transforms there are, and their parameters, is known to data/transforms
// alone.
#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "data/registry.h"

namespace tandem::config {

namespace {

Type type_of(const datasets::ParameterInfo& parameter) {
  Type type;
  type.kind = parameter.max_count > 1 ? Type::Kind::numbers : Type::Kind::number;
  type.max_count = parameter.max_count;
  if (std::isfinite(parameter.min)) type.min = parameter.min;
  if (std::isfinite(parameter.max)) type.max = parameter.max;
  return type;
}

Value value_of(const std::vector<double>& numbers) {
  return numbers.size() == 1 ? Value(numbers.front()) : Value(numbers);
}

Key key_of(const datasets::TransformInfo& transform, const datasets::ParameterInfo& parameter) {
  Key key;
  key.name = parameter.name;
  key.type = type_of(parameter);
  key.help = parameter.help;
  key.only_for = {transform.name};
  key.default_value = value_of(parameter.defaults);
  // A default that is written out means the same as one that is not.
  key.store = [name = parameter.name, defaults = parameter.defaults](void* object, const Value& value) {
    std::vector<double> numbers;
    if (!value.is(Value::Kind::list)) numbers.push_back(value.number);
    for (const Value& item : value.items) numbers.push_back(item.number);
    auto& parameters = static_cast<TransformConfig*>(object)->spec.parameters;
    parameters.erase(name);
    if (numbers != defaults) parameters.emplace(name, std::move(numbers));
  };
  key.load = [name = parameter.name, defaults = parameter.defaults](const void* object) {
    const auto& given = static_cast<const TransformConfig*>(object)->spec.parameters;
    const auto found = given.find(name);
    return value_of(found == given.end() ? defaults : found->second);
  };
  return key;
}

Schema transform_schema() {
  Key name;
  name.name = "name";
  name.type.kind = Type::Kind::string;
  name.help = "what to do with each training image";
  name.required = true;
  name.store = [](void* object, const Value& value) {
    static_cast<TransformConfig*>(object)->spec.name = value.text;
  };
  name.load = [](const void* object) -> Value {
    return static_cast<const TransformConfig*>(object)->spec.name;
  };
  Schema schema;
  schema.short_key = "name";
  schema.keys.push_back(name);
  for (const auto& transform : datasets::all_transforms()) {
    schema.keys.front().type.choices.push_back(transform.name);
    for (const auto& parameter : transform.parameters) schema.keys.push_back(key_of(transform, parameter));
  }
  return schema;
}

}  // namespace

const Schema& TransformConfig::schema() {
  static const Schema schema = transform_schema();
  return schema;
}

const Schema& DataConfig::schema() {
  constexpr double kSamples = 4294967295.0;
  std::vector<std::string> names;
  for (const auto& entry : datasets::all_datasets()) names.push_back(entry.name);
  const auto only = [](std::vector<std::string> owners, Rule rule) {
    rule.only_for = std::move(owners);
    return rule;
  };
  static const Schema schema =
      Describe<DataConfig>()
          .key("name", &DataConfig::name, "the data set", {.choices = names, .required = true})
          .key("path", &DataConfig::path, "its folder or file; null: where it is usually installed")
          .key("batch_size", &DataConfig::batch_size, "samples in a batch", {.min = 1, .max = 1048576})
          .key("eval_batch_size", &DataConfig::eval_batch_size,
               "samples in a batch of an evaluation; auto: batch_size",
               {.min = 1, .max = 1048576, .keyword = "auto"})
          .key("augment", &DataConfig::augment,
               "transforms of each training image, in order; evaluation keeps those that are not random")
          .key("workers", &DataConfig::workers,
               "threads that load ahead on cores of their own; 0: load between steps", {.min = 0, .max = 256})
          .key("prefetch", &DataConfig::prefetch, "batches that workers keep ready", {.min = 0, .max = 1024})
          .key("shuffle", &DataConfig::shuffle, "a new order in every epoch")
          .key("drop_last", &DataConfig::drop_last, "leave out a last training batch that is not full")
          .key("overfit_batches", &DataConfig::overfit_batches,
               "train and evaluate on the first so many training batches only, in order and without "
               "augmentation; 0: off",
               {.min = 0, .max = 1073741824})
          .key("train_size", &DataConfig::train_size, "training samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("validation_size", &DataConfig::validation_size,
               "samples set aside from training, by which the best checkpoint is chosen; the test split is "
               "then used "
               "once, at the end; 0: evaluations and that choice use the test split",
               {.min = 0, .max = kSamples})
          .key("test_size", &DataConfig::test_size, "test samples to use, drawn evenly; 0: all",
               {.min = 0, .max = kSamples})
          .key("test_fraction", &DataConfig::test_fraction,
               "share of every class kept for testing, where the files have no test split",
               only({"digits", "image_folder", "npy"},
                    {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true}))
          .key("split_seed", &DataConfig::split_seed, "draws the splits, whatever the seed of the run",
               {.min = 0})
          .key("image_size", &DataConfig::image_size, "side of the images in pixels; 0: 224, synthetic 32",
               only({"image_folder", "synthetic"}, {.min = 0, .max = 65536}))
          .key("channels", &DataConfig::channels, "3 or 1, synthetic any; 0: 3",
               only({"image_folder", "synthetic"}, {.min = 0, .max = 65536}))
          .key("classes", &DataConfig::classes, "number of classes; 0: what the labels say, synthetic 10",
               only({"idx", "npy", "synthetic"}, {.min = 0, .max = 16777216}))
          .key("layout", &DataConfig::layout,
               "axes of arrays of images: nhwc (height, width, channels) or nchw (channels, height, width); "
               "auto: nhwc, and what looks like nchw is refused",
               only({"idx", "npy"}, {.choices = {"auto", "nhwc", "nchw"}}))
          .key("noise", &DataConfig::noise, "standard deviation of the noise, 1 is full brightness",
               only({"synthetic"}, {.min = 0.0, .max = 10.0}))
          .key("train_images", &DataConfig::train_images, "file with a name of its own, below data.path",
               only({"idx"}, {}))
          .key("train_labels", &DataConfig::train_labels, "file with a name of its own, below data.path",
               only({"idx"}, {}))
          .key("test_images", &DataConfig::test_images, "file with a name of its own, below data.path",
               only({"idx"}, {}))
          .key("test_labels", &DataConfig::test_labels, "file with a name of its own, below data.path",
               only({"idx"}, {}))
          .key("max_image_mib", &DataConfig::max_image_mib,
               "memory in MiB that decoding an image file may take, in every worker at once; a larger one is "
               "refused",
               {.min = 1, .max = 1048576})
          .key("skip_bad_samples", &DataConfig::skip_bad_samples,
               "take the next image for one that cannot be read, and log it", only({"image_folder"}, {}))
          .key("max_bad_samples", &DataConfig::max_bad_samples, "stop when there are more",
               only({"image_folder"}, {.min = 0, .max = kSamples}))
          .short_key("name");
  return schema;
}

}  // namespace tandem::config
