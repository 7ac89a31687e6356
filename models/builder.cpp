#include "models/builder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/modes.h"
#include "core/printable.h"
#include "core/tensor.h"
#include "models/layer_types.h"
#include "nn/device.h"
#include "nn/layers/sequential.h"

namespace tandem::models {

namespace {

using nlohmann::json;
using nn::ModulePtr;

constexpr std::size_t kMaxLayers = 10000;
constexpr int kMaxNesting = 16;

[[noreturn]] void fail(const std::string& path, const std::string& message) {
  throw OptionError(path, message);
}

std::string element(const std::string& path, std::size_t index) { return fmt::format("{}[{}]", path, index); }

std::string shown(const json& value) {
  std::string text =
      value.is_structured() ? value.type_name() : value.dump(-1, ' ', false, json::error_handler_t::replace);
  return shortened(text, 57);
}

OptionValue option_value(const json& value, const std::string& path) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fail(path, fmt::format("{} is too large", shown(value)));
  if (value.is_number_integer()) return value.get<Index>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    const bool whole =
        std::floor(number) == number && std::abs(number) < 0x1p53;  // 10.0 and 1e6 are integers
    return whole ? OptionValue(static_cast<Index>(number)) : OptionValue(number);
  }
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) fail(path, fmt::format("expected a plain value, got {}", shown(value)));
  std::vector<Index> list;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const OptionValue item = option_value(value[i], element(path, i));
    const auto* integer = std::get_if<Index>(&item);
    if (!integer) fail(element(path, i), fmt::format("expected an integer, got {}", shown(value[i])));
    list.push_back(*integer);
  }
  return list;
}

// null means "not given" everywhere.
bool given(const json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

// Every key but the reserved ones.
OptionMap options_of(const json& object, std::initializer_list<std::string_view> reserved,
                     std::span<const OptionInfo> infos, const std::string& path) {
  OptionMap options;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::count(reserved, key) > 0) continue;
    if (value.is_null() && std::ranges::count(infos, key, &OptionInfo::name) > 0) continue;
    options[key] = value.is_null() ? OptionValue(std::string("null")) : option_value(value, path + "." + key);
  }
  return options;
}

const std::string& text_at(const json& object, const char* key, const std::string& path) {
  const json& value = object.at(key);
  if (!value.is_string()) fail(path + "." + key, fmt::format("expected a text, got {}", shown(value)));
  return value.get_ref<const std::string&>();
}

struct LayerSpec {
  std::string path;
  std::string type_name;
  const LayerType* type = nullptr;  // nullptr: "sequential"
  const json* object = nullptr;
  std::string name;  // as given or the index
  std::optional<std::vector<std::string>> input_names;
  std::vector<int> inputs;  // layers; Graph::kInput
};

bool valid_name(const std::string& name) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && name.size() <= 128 && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(name, allowed) && name != "input";
}

LayerSpec parse_layer(const json& object, std::size_t index, const std::string& path) {
  LayerSpec spec{.path = path,
                 .type_name = {},
                 .object = &object,
                 .name = std::to_string(index),
                 .input_names = {},
                 .inputs = {}};
  if (!object.is_object()) fail(path, fmt::format("expected a layer {{\"type\": …}}, got {}", shown(object)));
  if (!given(object, "type")) fail(path + ".type", "every layer needs a type, such as \"conv2d\"");
  spec.type_name = text_at(object, "type", path);
  spec.type = find_layer_type(spec.type_name);
  if (!spec.type && spec.type_name != "sequential") {
    std::vector<std::string> known = layer_type_names();
    known.emplace_back("sequential");
    fail(path + ".type",
         fmt::format("there is no layer type \"{}\"{}", spec.type_name, suggestion(spec.type_name, known)));
  }
  if (given(object, "name")) {
    spec.name = text_at(object, "name", path);
    if (!valid_name(spec.name))
      fail(path + ".name",
           fmt::format("\"{}\" is no name for a layer: letters, digits and _, not a digit first, not "
                       "\"input\"",
                       spec.name));
  }
  if (given(object, "inputs")) {
    const json& inputs = object["inputs"];
    if (!inputs.is_array() || inputs.empty())
      fail(path + ".inputs", fmt::format("expected a list of names of layers, got {}", shown(inputs)));
    spec.input_names.emplace();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_string())
        fail(element(path + ".inputs", i),
             fmt::format("expected the name of a layer, got {}", shown(inputs[i])));
      spec.input_names->push_back(inputs[i].get<std::string>());
    }
  }
  return spec;
}

void resolve_inputs(std::vector<LayerSpec>& specs) {
  std::map<std::string, int> by_name;
  std::vector<std::string> known{"input"};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto [at, fresh] = by_name.emplace(specs[i].name, static_cast<int>(i));
    if (!fresh)
      fail(specs[i].path + ".name", fmt::format("\"{}\" is the name of {} already", specs[i].name,
                                                specs[static_cast<std::size_t>(at->second)].path));
    if (given(*specs[i].object, "name")) known.push_back(specs[i].name);
  }
  by_name["input"] = nn::Graph::kInput;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    LayerSpec& spec = specs[i];
    if (!spec.input_names) {
      spec.inputs = {static_cast<int>(i) - 1};
    } else {
      for (std::size_t j = 0; j < spec.input_names->size(); ++j) {
        const std::string& name = (*spec.input_names)[j];
        const auto found = by_name.find(name);
        if (found == by_name.end())
          fail(element(spec.path + ".inputs", j),
               fmt::format("there is no layer \"{}\"{}", name, suggestion(name, known)));
        spec.inputs.push_back(found->second);
      }
    }
    const int count = static_cast<int>(spec.inputs.size());
    const int low = spec.type ? spec.type->min_inputs : 1;
    const int high = spec.type ? spec.type->max_inputs : 1;
    if (count < low || count > high)
      fail(spec.path + ".inputs", fmt::format("{} takes {}, got {}", spec.type_name,
                                              low == high ? fmt::format("{} input(s)", low)
                                                          : fmt::format("{} to {} inputs", low, high),
                                              count));
  }
}

[[noreturn]] void fail_cycle(const std::vector<LayerSpec>& specs, const std::vector<int>& waiting) {
  // Among layers that wait for each other, walking to any waiting input must come round.
  std::vector<int> walk;
  int at = static_cast<int>(std::ranges::find_if(waiting, [](int w) { return w > 0; }) - waiting.begin());
  while (std::ranges::count(walk, at) == 0) {
    walk.push_back(at);
    const auto& inputs = specs[static_cast<std::size_t>(at)].inputs;
    at = *std::ranges::find_if(inputs,
                               [&](int i) { return i >= 0 && waiting[static_cast<std::size_t>(i)] > 0; });
  }
  std::string text = specs[static_cast<std::size_t>(at)].name;
  for (auto step = walk.rbegin(); step != walk.rend(); ++step) {
    text += " → " + specs[static_cast<std::size_t>(*step)].name;
    if (*step == at) break;
  }
  fail(specs[static_cast<std::size_t>(at)].path + ".inputs",
       fmt::format("the layers form a cycle: {}", text));
}

// An order in which every layer comes after its inputs; the list's own order where that is free.
std::vector<int> running_order(const std::vector<LayerSpec>& specs) {
  std::vector<int> waiting(specs.size(), 0);
  std::vector<std::vector<int>> consumers(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (int input : specs[i].inputs) {
      if (input < 0) continue;
      consumers[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
      ++waiting[i];
    }
  }
  std::vector<int> order, ready;
  for (std::size_t i = 0; i < specs.size(); ++i) {  // ascending: a heap already
    if (waiting[i] == 0) ready.push_back(static_cast<int>(i));
  }
  const auto later = std::greater<int>();
  while (!ready.empty()) {
    std::ranges::pop_heap(ready, later);
    const int next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (int consumer : consumers[static_cast<std::size_t>(next)]) {
      if (--waiting[static_cast<std::size_t>(consumer)] > 0) continue;
      ready.push_back(consumer);
      std::ranges::push_heap(ready, later);
    }
  }
  if (order.size() < specs.size()) fail_cycle(specs, waiting);
  return order;
}

void check_all_used(const std::vector<LayerSpec>& specs, int output) {
  std::vector<bool> used(specs.size(), false);
  std::vector<int> pending{output};
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    if (at < 0 || used[static_cast<std::size_t>(at)]) continue;
    used[static_cast<std::size_t>(at)] = true;
    for (int input : specs[static_cast<std::size_t>(at)].inputs) pending.push_back(input);
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end()) return;
  const LayerSpec& spec = specs[static_cast<std::size_t>(unused - used.begin())];
  fail(spec.path,
       fmt::format("the output of layer \"{}\" ({}) is not used; name it among the \"inputs\" of a later "
                   "layer or remove it",
                   spec.name, spec.type_name));
}

// The result for an empty batch, which only shapes flow through.
Tensor dry_run(nn::Module& module, const TensorList& xs) {
  const NoGrad no_grad;
  const nn::ModeScope evaluation(module, false);
  return xs.size() == 1 ? module(xs[0]) : module(xs);
}

struct Built {
  ModulePtr module;
  Tensor result;  // for an empty batch
  std::string
      linear;  // path of the first linear layer that was given more than features; "" when there is none
};

Built build_layers(const json& object, const Tensor& input, const std::string& path, int nesting);

// The extent of 0 of an empty batch stays where it is, and turns up nowhere else: an addition, for instance,
// may broadcast the batch of one input against an axis of the other's samples.
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
    return build_layers(*spec.object, xs[0], spec.path, nesting + 1);
  }
  const Options options(spec.path, spec.type->options,
                        options_of(*spec.object, {"type", "name", "inputs"}, spec.type->options, spec.path));
  std::vector<Shape> shapes;
  for (const Tensor& x : xs) shapes.push_back(x.shape());
  try {
    ModulePtr module = spec.type->make(options, shapes);
    Tensor result = dry_run(*module, xs);
    require_samples_apart(spec, shapes, result.shape());
    const bool over_images = spec.type_name == "linear" && shapes.front().rank() > 2;
    return {std::move(module), std::move(result), over_images ? spec.path : ""};
  } catch (const OptionError&) {
    throw;
  } catch (const UserError& error) {
    fail(spec.path, fmt::format("{} (shapes are of an empty batch)", error.what()));
  }
}

std::vector<LayerSpec> parse_layers(const json& object, const std::string& path, int nesting) {
  if (nesting > kMaxNesting) fail(path, fmt::format("layers nest deeper than {}", kMaxNesting));
  if (!given(object, "layers") || !object["layers"].is_array() || object["layers"].empty())
    fail(path + ".layers", "expected a list of layers");
  const json& layers = object["layers"];
  if (layers.size() > kMaxLayers)
    fail(path + ".layers", fmt::format("at most {} layers, got {}", kMaxLayers, layers.size()));
  std::vector<LayerSpec> specs;
  for (std::size_t i = 0; i < layers.size(); ++i)
    specs.push_back(parse_layer(layers[i], i, element(path + ".layers", i)));
  resolve_inputs(specs);
  return specs;
}

int output_of(const json& object, const std::vector<LayerSpec>& specs, const std::string& path) {
  if (!given(object, "output")) return static_cast<int>(specs.size()) - 1;
  const std::string& name = text_at(object, "output", path);
  const auto found = std::ranges::find(specs, name, &LayerSpec::name);
  if (found != specs.end()) return static_cast<int>(found - specs.begin());
  std::vector<std::string> known;
  for (const LayerSpec& spec : specs) known.push_back(spec.name);
  fail(path + ".output", fmt::format("there is no layer \"{}\"{}", name, suggestion(name, known)));
}

Built build_layers(const json& object, const Tensor& input, const std::string& path, int nesting) {
  const std::vector<LayerSpec> specs = parse_layers(object, path, nesting);
  const std::vector<int> order = running_order(specs);
  check_all_used(specs, output_of(object, specs, path));

  bool chain = true;
  for (std::size_t i = 0; i < specs.size(); ++i)
    chain &= specs[i].inputs == std::vector<int>{static_cast<int>(i) - 1};
  auto sequence = std::make_shared<nn::Sequential>();
  auto graph = std::make_shared<nn::Graph>();
  TensorList results(specs.size());
  std::vector<int> node(specs.size());
  std::string linear;
  for (int at : order) {  // every layer leads to the output, which therefore comes last
    const LayerSpec& spec = specs[static_cast<std::size_t>(at)];
    TensorList xs;
    std::vector<int> inputs;
    for (int i : spec.inputs) {
      xs.push_back(i < 0 ? input : results[static_cast<std::size_t>(i)]);
      inputs.push_back(i < 0 ? nn::Graph::kInput : node[static_cast<std::size_t>(i)]);
    }
    Built built = build_layer(spec, xs, nesting);
    results[static_cast<std::size_t>(at)] = std::move(built.result);
    if (linear.empty()) linear = std::move(built.linear);
    if (chain) {
      sequence->add(spec.name, std::move(built.module));
    } else {
      node[static_cast<std::size_t>(at)] = graph->add(spec.name, std::move(built.module), std::move(inputs));
    }
  }
  const Tensor result = results[static_cast<std::size_t>(order.back())];
  return {chain ? ModulePtr(sequence) : ModulePtr(graph), result, linear};
}

Tensor empty_batch(const Shape& sample, DType dtype, Device device) {
  return Tensor::empty(sample.inserted(0, 0), {.dtype = dtype, .device = device});
}

// "input_shape" where it is given, which must agree with the data.
DataInfo data_of(const json& model, DataInfo data, const std::string& path) {
  if (!given(model, "input_shape")) return data;
  const std::string at = path + ".input_shape";
  const OptionValue value = option_value(model["input_shape"], at);
  const auto* extents = std::get_if<std::vector<Index>>(&value);
  if (!extents || extents->empty() || extents->size() >= kMaxRank ||
      std::ranges::any_of(*extents, [](Index e) { return e <= 0; }))
    fail(at, "expected the positive extents of one sample, such as [28, 28, 1]");
  const Shape sample{std::span<const Index>(*extents)};
  if (data.sample.rank() > 0 && data.sample != sample)
    fail(at, fmt::format("{} is given, but the data has samples of {}", to_string(sample),
                         to_string(data.sample)));
  data.sample = sample;
  return data;
}

Built build_named(const json& model, const DataInfo& data, const std::string& path) {
  const std::string& name = text_at(model, "name", path);
  const ModelInfo* info = find_model(name);
  const std::span<const OptionInfo> infos = info ? std::span(info->options) : std::span<const OptionInfo>{};
  const OptionMap options = options_of(model, {"name", "input_shape", "layers", "output"}, infos, path);
  try {
    Built built{create(name, options, data, path), {}, {}};
    if (data.sample.rank() > 0)
      built.result =
          dry_run(*built.module, {empty_batch(data.sample, data.dtype, nn::BuildDevice::current())});
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
  static const std::vector<std::string> known{"layers", "output", "input_shape", "name"};
  for (const auto& [key, value] : model.items()) {
    if (std::ranges::count(known, key) == 0) fail(path + "." + key, "unknown key" + suggestion(key, known));
  }
  if (data.sample.rank() == 0)
    fail(path + ".input_shape", "the extents of one sample are needed, such as [28, 28, 1]");
  return build_layers(model, empty_batch(data.sample, data.dtype, nn::BuildDevice::current()), path, 0);
}

// A classifier gives one score a class for each sample.
void check_scores(const Built& built, Index classes, const std::string& path) {
  if (classes == 0 || !built.result.defined()) return;
  const Shape result = built.result.shape().without(0);
  if (result.rank() == 1 && result[0] >= classes) return;
  const std::string what = fmt::format(
      "the result of a sample is {}, but the data has {} classes, which need one "
      "score each",
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
  check_scores(built, data.classes, path);
  return built.module;
}

Shape output_shape(nn::Module& model, const Shape& sample, DType dtype) {
  return dry_run(model, {empty_batch(sample, dtype, nn::device_of(model))}).shape().without(0);
}

}  // namespace tandem::models
