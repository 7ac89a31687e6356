#include "models/builder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/modes.h"
#include "core/tensor.h"
#include "models/layer_specs.h"
#include "models/model_json.h"
#include "nn/device.h"
#include "nn/layers/graph.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

namespace {

using nlohmann::json;
using nn::ModulePtr;

constexpr int kMaxNesting = 16;

// The results for an empty batch, which only propagates shapes.
TensorList dry_run(nn::Module& module, const TensorList& xs, bool several = false) {
  const NoGrad no_grad;
  const nn::ModeScope evaluation(module, false);
  if (several) return module.all_outputs(xs);
  return {xs.size() == 1 ? module(xs[0]) : module(xs)};
}

// An input of a model or of a nested list of layers: name and empty batch.
struct Input {
  std::string name;
  Tensor values;
};

struct Built {
  ModulePtr module;
  TensorList results;  // for an empty batch
  // Path of the first linear layer whose input has further axes; "" if none.
  std::string linear;
};

Built build_layers(const json& object, const std::vector<Input>& inputs, const std::string& path,
                   int nesting);

// The batch extent, 0 in an empty batch, must stay in place and occur nowhere else. For instance, an addition
// may broadcast the batch of one input against a sample axis of the other.
void require_samples_apart(const LayerSpec& spec, const std::vector<Shape>& inputs, const Shape& result) {
  if (result.rank() > 0 && result[0] == 0 && std::ranges::count(result, Index{0}) == 1) return;
  std::vector<std::string> shapes;
  for (const Shape& shape : inputs) shapes.push_back(to_string(shape));
  fail(spec.path,
       fmt::format("{} of {} gives {}, which mixes the samples of a batch (shapes are of an empty one)",
                   spec.type_name, fmt::join(shapes, " and "), to_string(result)));
}

Built build_layer(const LayerSpec& spec, const TensorList& xs, int nesting) {
  if (!spec.type) {
    for (const auto& [key, value] : spec.object->items()) {
      static const std::vector<std::string> known{"type", "name", "inputs", "layers", "output"};
      if (std::ranges::count(known, key) == 0)
        fail(spec.path + "." + key, "unknown key" + suggestion(key, known));
    }
    return build_layers(*spec.object, {{"input", xs[0]}}, spec.path, nesting + 1);
  }
  std::vector<Shape> shapes;
  for (const Tensor& x : xs) shapes.push_back(x.shape());
  try {
    ModulePtr module = at_place(spec.path, [&] {
      const options::Given given = options_of(*spec.object, {"type", "name", "inputs"});
      return spec.type->make(record_of(*spec.type, given).data(), shapes);
    });
    TensorList results = dry_run(*module, xs, spec.has_several_outputs());
    for (const Tensor& result : results) require_samples_apart(spec, shapes, result.shape());
    const bool over_images = spec.type_name == "linear" && shapes.front().rank() > 2;
    return {std::move(module), std::move(results), over_images ? spec.path : ""};
  } catch (const OptionError&) {
    throw;
  } catch (const UserError& error) {
    fail(spec.path, fmt::format("{} (shapes are of an empty batch)", error.what()));
  }
}

// Whether each layer takes the one before it, from the first input to the last layer.
bool is_chain(const LayerList& list) {
  if (list.named_outputs || list.outputs[0].second.output != nn::Graph::Source::kOnly) return false;
  for (std::size_t i = 0; i < list.specs.size(); ++i) {
    if (list.specs[i].inputs != std::vector<LayerSource>{{static_cast<int>(i) - 1}}) return false;
  }
  return true;
}

// Makes the layers of a list, each from the results of its inputs.
class ListBuilder {
 public:
  ListBuilder(const LayerList& list, const std::vector<Input>& inputs, int nesting)
      : list_(list),
        inputs_(inputs),
        nesting_(nesting),
        results_(list.specs.size()),
        nodes_(list.specs.size()) {}

  Built build(const std::string& path) {
    const ModulePtr module = is_chain(list_) ? sequence() : graph();
    TensorList results;
    for (const auto& [name, source] : list_.outputs)
      results.push_back(result_of(
          source, list_.named_outputs ? element(path + ".outputs", results.size()) : path + ".output"));
    return {module, std::move(results), std::move(linear_)};
  }

 private:
  const LayerSpec& spec(int layer) const { return list_.specs[static_cast<std::size_t>(layer)]; }

  const Tensor& result_of(const LayerSource& source, const std::string& path) const {
    if (source.layer < 0) return inputs_[static_cast<std::size_t>(nn::Graph::kInput - source.layer)].values;
    const TensorList& results = results_[static_cast<std::size_t>(source.layer)];
    const auto number = static_cast<std::size_t>(std::max(0, source.output));
    if (number >= results.size())
      fail(path, fmt::format("\"{0}\" has {1} outputs, \"{0}.0\" to \"{0}.{2}\"", spec(source.layer).name,
                             results.size(), results.size() - 1));
    return results[number];
  }

  ModulePtr make(int layer) {
    TensorList xs;
    for (std::size_t i = 0; i < spec(layer).inputs.size(); ++i)
      xs.push_back(result_of(spec(layer).inputs[i], element(spec(layer).path + ".inputs", i)));
    Built built = build_layer(spec(layer), xs, nesting_);
    results_[static_cast<std::size_t>(layer)] = std::move(built.results);
    if (linear_.empty()) linear_ = std::move(built.linear);
    return std::move(built.module);
  }

  ModulePtr sequence() {
    auto sequence = std::make_shared<nn::Sequential>();
    for (const int layer : list_.order) sequence->add(spec(layer).name, make(layer));
    return sequence;
  }

  // Over the inputs in use, in their order.
  ModulePtr graph() {
    std::set<int> taken;
    for (const LayerSpec& each : list_.specs) {
      for (const LayerSource& source : each.inputs) {
        if (source.layer < 0) taken.insert(nn::Graph::kInput - source.layer);
      }
    }
    std::vector<std::string> names;
    for (const int number : taken) names.push_back(inputs_[static_cast<std::size_t>(number)].name);
    const auto source_in_graph = [&](const LayerSource& source) -> nn::Graph::Source {
      if (source.layer >= 0) return {nodes_[static_cast<std::size_t>(source.layer)], source.output};
      const auto at = taken.find(nn::Graph::kInput - source.layer);
      return nn::Graph::input(static_cast<int>(std::distance(taken.begin(), at)));
    };
    auto graph = std::make_shared<nn::Graph>(std::move(names));
    for (const int layer : list_.order) {
      ModulePtr module = make(layer);
      std::vector<nn::Graph::Source> sources;
      for (const LayerSource& source : spec(layer).inputs) sources.push_back(source_in_graph(source));
      nodes_[static_cast<std::size_t>(layer)] = graph->add(spec(layer).name, std::move(module), sources);
    }
    // A single unnumbered output is that of the last layer in order.
    if (list_.named_outputs || list_.outputs[0].second.output != nn::Graph::Source::kOnly) {
      std::vector<std::pair<std::string, nn::Graph::Source>> outputs;
      for (const auto& [name, source] : list_.outputs) outputs.emplace_back(name, source_in_graph(source));
      graph->set_outputs(outputs);
    }
    return graph;
  }

  const LayerList& list_;
  const std::vector<Input>& inputs_;
  const int nesting_;
  std::vector<TensorList> results_;
  std::vector<int> nodes_;
  std::string linear_;
};

Built build_layers(const json& object, const std::vector<Input>& inputs, const std::string& path,
                   int nesting) {
  if (nesting > kMaxNesting) fail(path, fmt::format("layers nest deeper than {}", kMaxNesting));
  std::vector<std::string> names;
  for (const Input& input : inputs) names.push_back(input.name);
  const LayerList list = layers_of(object, names, path);
  return ListBuilder(list, inputs, nesting).build(path);
}

Tensor empty_batch(const Shape& sample, DType dtype, Device device) {
  return Tensor::empty(sample.inserted(0, 0), {.dtype = dtype, .device = device});
}

// Positive integers in any notation: 28, 28.0.
std::vector<Index> extents_at(const json& list, const std::string& path) {
  std::vector<Index> extents;
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    const double extent = list[i].is_number() ? list[i].get<double>() : 0.0;
    if (!(extent >= 1 && extent <= kMaxExtent) || std::floor(extent) != extent)
      fail(element(path, i),
           fmt::format("expected the extent of an axis, at least 1, got {}", shown(list[i])));
    extents.push_back(static_cast<Index>(extent));
  }
  if (extents.empty() || extents.size() >= kMaxRank)
    fail(path, "expected the positive extents of one sample, such as [28, 28, 1]");
  return extents;
}

// "input_shape" if given, which must agree with the data. The first field holds the samples.
DataInfo data_of(const json& model, DataInfo data, const std::string& path) {
  if (!data.fields.empty()) {
    data.sample = data.fields[0].sample;
    data.dtype = data.fields[0].dtype;
  }
  if (!given(model, "input_shape")) return data;
  const std::string at = path + ".input_shape";
  const std::vector<Index> extents = extents_at(model["input_shape"], at);
  const Shape sample{std::span<const Index>(extents)};
  if (data.sample.rank() > 0 && data.sample != sample)
    fail(at, fmt::format("{} is given, but the data has samples of {}", to_string(sample),
                         to_string(data.sample)));
  data.sample = sample;
  return data;
}

Built build_named(const json& model, const DataInfo& data, const std::string& path) {
  const std::string& name = text_at(model, "name", path);
  const ModelInfo* info = registry().find(name);
  const options::Given options = options_of(model, {"name", "input_shape", "layers", "output", "outputs"});
  if (info && data.kind && !serves_as(info->kind, *data.kind))
    fail(path, fmt::format("{} {}. It is: {}", name, not_of_kind(*data.kind), info->help));
  try {
    Built built{create(name, options, data, path), {}, {}};
    if (data.sample.rank() == 0 || !runs_on_samples(info->kind)) return built;
    const bool detects = info->kind == ModelKind::detector;
    TensorList results =
        dry_run(*built.module, {empty_batch(data.sample, data.dtype, nn::BuildDevice::current())}, detects);
    if (!detects) built.results = std::move(results);  // class scores
    return built;
  } catch (const OptionError&) {
    throw;
  } catch (const UserError& error) {
    if (data.sample.rank() == 0) fail(path, fmt::format("{}: {}", name, error.what()));
    fail(path, fmt::format("{} does not fit samples of {}: {} (shapes are of an empty batch)", name,
                           to_string(data.sample), error.what()));
  }
}

Built build_listed(const json& model, const DataInfo& data, const std::string& path) {
  static const std::vector<std::string> known{"layers", "output", "outputs", "input_shape", "name"};
  for (const auto& [key, value] : model.items()) {
    if (std::ranges::count(known, key) == 0) fail(path + "." + key, "unknown key" + suggestion(key, known));
  }
  if (data.sample.rank() == 0)
    fail(path + ".input_shape", "the extents of one sample are needed, such as [28, 28, 1]");
  const Device device = nn::BuildDevice::current();
  std::vector<Input> inputs;
  for (const FieldInfo& field : data.fields)
    inputs.push_back({field.name, empty_batch(field.sample, field.dtype, device)});
  if (inputs.empty()) inputs.push_back({"input", empty_batch(data.sample, data.dtype, device)});
  return build_layers(model, inputs, path, 0);
}

// Segmentation needs one score per class at every pixel.
void check_pixel_scores(const Shape& result, const DataInfo& data, const std::string& path) {
  const Shape& sample = data.sample;
  const bool image = result.rank() == 3 && sample.rank() == 3;
  if (image && result[0] == sample[0] && result[1] == sample[1] && result[2] == data.classes) return;
  fail(path, fmt::format("the result of a sample of {} is {}, but the data has {} classes of pixels, which "
                         "need one score each at every pixel: {}",
                         to_string(sample), to_string(result), data.classes,
                         to_string(sample.with(sample.rank() - 1, data.classes))));
}

// Classification needs one score per class for each sample.
void check_scores(const Built& built, const DataInfo& data, const std::string& path) {
  const Index classes = data.classes;
  if (classes == 0 || built.results.size() != 1) return;
  const Shape result = built.results[0].shape().without(0);
  if (data.kind == ModelKind::segmenter) return check_pixel_scores(result, data, path);
  if (result.rank() == 1 && result[0] >= classes) return;
  const std::string what =
      fmt::format("the result of a sample is {}, but the data has {} classes, which need one score each",
                  to_string(result), classes);
  if (result.rank() <= 1) fail(path, what);
  const std::string flat = R"({"type": "flatten"} or {"type": "global_avg_pool2d"})";
  if (!built.linear.empty())
    fail(built.linear, fmt::format("{}; put {} before this linear layer", what, flat));
  fail(path,
       fmt::format(R"({}; end with {} and {{"type": "linear", "out_features": {}}})", what, flat, classes));
}

}  // namespace

nn::ModulePtr build(const json& model, const DataInfo& known_data, const std::string& path) {
  if (!model.is_object())
    fail(path, fmt::format("expected {{\"name\": …}} or {{\"layers\": […]}}, got {}", shown(model)));
  if (given(model, "name") == given(model, "layers"))
    fail(path, "give either \"name\", a registered model, or \"layers\"");
  const DataInfo data = data_of(model, known_data, path);
  const Built built = given(model, "name") ? build_named(model, data, path) : build_listed(model, data, path);
  check_scores(built, data, path);
  return built.module;
}

Shape output_shape(nn::Module& model, const Shape& sample, DType dtype) {
  return dry_run(model, {empty_batch(sample, dtype, nn::device_of(model))})[0].shape().without(0);
}

std::vector<Shape> output_shapes(nn::Module& model, std::span<const FieldInfo> inputs) {
  TensorList xs;
  for (const FieldInfo& input : inputs)
    xs.push_back(empty_batch(input.sample, input.dtype, nn::device_of(model)));
  std::vector<Shape> shapes;
  for (const Tensor& result : dry_run(model, xs, /*several=*/true))
    shapes.push_back(result.shape().without(0));
  return shapes;
}

}  // namespace tandem::models
