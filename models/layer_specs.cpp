#include "models/layer_specs.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>

#include "models/model_json.h"

namespace tandem::models {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxLayers = 10000;

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
  spec.type = layer_types().find(spec.type_name);
  if (!spec.type && spec.type_name != "sequential") {
    std::vector<std::string> known = layer_types().names();
    known.emplace_back("sequential");
    fail(path + ".type",
         fmt::format("there is no layer type \"{}\"{}", spec.type_name, suggestion(spec.type_name, known)));
  }
  if (given(object, "name")) {
    spec.name = text_at(object, "name", path);
    if (!valid_name(spec.name))
      fail(path + ".name",
           fmt::format(
               "\"{}\" is no name for a layer: letters, digits and _, not a digit first, not \"input\"",
               spec.name));
  }
  if (given(object, "inputs")) spec.input_names = names_at(object, "inputs", path);
  return spec;
}

using Names = std::map<std::string, int>;

// Resolves `name` at `path`. Several outputs are numbered: "halves.1".
LayerSource source_of(const std::string& name, const std::vector<LayerSpec>& specs, const Names& by_name,
                      const std::string& path) {
  const std::size_t dot = name.find('.');
  const std::string layer = name.substr(0, dot);
  const auto found = by_name.find(layer);
  if (found == by_name.end()) {
    std::vector<std::string> known;
    for (const auto& [each, index] : by_name) {
      if (index < 0) known.push_back(each);
    }
    for (const LayerSpec& spec : specs) {
      if (given(*spec.object, "name")) known.push_back(spec.name);
    }
    fail(path, fmt::format("there is no layer \"{}\"{}", name, suggestion(name, known)));
  }
  const int index = found->second;
  const bool several = index >= 0 && specs[static_cast<std::size_t>(index)].has_several_outputs();
  if (dot == std::string::npos) {
    if (several)
      fail(path,
           fmt::format("\"{0}\" has several outputs: name one of them, \"{0}.0\", \"{0}.1\", …", layer));
    return {index};
  }
  if (!several) fail(path, fmt::format("\"{0}\" has one output, which is called \"{0}\"", layer));
  const std::string number = name.substr(dot + 1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (number.empty() || number.size() > 4 || !std::ranges::all_of(number, is_digit))
    fail(path, fmt::format("\"{}\" is no number of an output of \"{}\"", number, layer));
  return {index, std::stoi(number)};
}

// Layers and inputs by name; inputs[0] is also called "input".
Names names_of(const std::vector<LayerSpec>& specs, const std::vector<std::string>& inputs) {
  Names by_name{{"input", nn::Graph::kInput}};
  for (std::size_t i = 0; i < inputs.size(); ++i) by_name[inputs[i]] = nn::Graph::input(static_cast<int>(i));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto [at, fresh] = by_name.emplace(specs[i].name, static_cast<int>(i));
    if (!fresh)
      fail(specs[i].path + ".name",
           fmt::format("\"{}\" is the name of {} already", specs[i].name,
                       at->second < 0 ? "an input" : specs[static_cast<std::size_t>(at->second)].path));
  }
  return by_name;
}

void resolve_inputs(std::vector<LayerSpec>& specs, const Names& by_name) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    LayerSpec& spec = specs[i];
    if (!spec.input_names) {
      if (i > 0 && specs[i - 1].has_several_outputs())
        fail(spec.path + ".inputs",
             fmt::format("the layer before has several outputs: name what {} takes, \"{}.0\", …",
                         spec.type_name, specs[i - 1].name));
      spec.inputs = {{static_cast<int>(i) - 1}};
    } else {
      for (std::size_t j = 0; j < spec.input_names->size(); ++j)
        spec.inputs.push_back(
            source_of((*spec.input_names)[j], specs, by_name, element(spec.path + ".inputs", j)));
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
  // Among mutually waiting layers, following any waiting input must return to a visited layer.
  std::vector<int> walk;
  int at = static_cast<int>(std::ranges::find_if(waiting, [](int w) { return w > 0; }) - waiting.begin());
  while (std::ranges::count(walk, at) == 0) {
    walk.push_back(at);
    const auto waits = [&](const LayerSource& source) {
      return source.layer >= 0 && waiting[static_cast<std::size_t>(source.layer)] > 0;
    };
    at = std::ranges::find_if(specs[static_cast<std::size_t>(at)].inputs, waits)->layer;
  }
  std::string text = specs[static_cast<std::size_t>(at)].name;
  for (auto step = walk.rbegin(); step != walk.rend(); ++step) {
    text += " → " + specs[static_cast<std::size_t>(*step)].name;
    if (*step == at) break;
  }
  fail(specs[static_cast<std::size_t>(at)].path + ".inputs",
       fmt::format("the layers form a cycle: {}", text));
}

// Topological order; the list's own order if possible.
std::vector<int> running_order(const std::vector<LayerSpec>& specs) {
  std::vector<int> waiting(specs.size(), 0);
  std::vector<std::vector<int>> consumers(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const LayerSource& input : specs[i].inputs) {
      if (input.layer < 0) continue;
      consumers[static_cast<std::size_t>(input.layer)].push_back(static_cast<int>(i));
      ++waiting[i];
    }
  }
  std::vector<int> order, ready;
  for (std::size_t i = 0; i < specs.size(); ++i) {  // ascending, so already a heap
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

void check_all_used(const std::vector<LayerSpec>& specs, const LayerOutputs& outputs) {
  std::vector<bool> used(specs.size(), false);
  std::vector<int> pending;
  for (const auto& [name, source] : outputs) pending.push_back(source.layer);
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    if (at < 0 || used[static_cast<std::size_t>(at)]) continue;
    used[static_cast<std::size_t>(at)] = true;
    for (const LayerSource& input : specs[static_cast<std::size_t>(at)].inputs)
      pending.push_back(input.layer);
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end()) return;
  const LayerSpec& spec = specs[static_cast<std::size_t>(unused - used.begin())];
  fail(spec.path, fmt::format("the output of layer \"{}\" ({}) is not used; name it among the \"inputs\" of "
                              "a later layer or remove it",
                              spec.name, spec.type_name));
}

LayerOutputs outputs_of(const json& object, const std::vector<LayerSpec>& specs, const Names& by_name,
                        const std::string& path) {
  const auto output = [&](const std::string& name, const std::string& at) {
    const LayerSource source = source_of(name, specs, by_name, at);
    if (source.layer < 0) fail(at, fmt::format("\"{}\" is an input; a result comes from a layer", name));
    return source;
  };
  if (given(object, "outputs")) {
    const std::string at = path + ".outputs";
    if (given(object, "output")) fail(at, "give either \"output\" or \"outputs\"");
    LayerOutputs outputs;
    for (const std::string& name : names_at(object, "outputs", path)) {
      const std::string place = element(at, outputs.size());
      if (std::ranges::count(outputs, name, &LayerOutputs::value_type::first) > 0)
        fail(place, fmt::format("\"{}\" is named twice", name));
      outputs.emplace_back(name, output(name, place));
    }
    return outputs;
  }
  if (given(object, "output")) return {{"output", output(text_at(object, "output", path), path + ".output")}};
  if (specs.back().has_several_outputs())
    fail(specs.back().path, fmt::format("the last layer has several outputs: name the model's, \"output\": "
                                        "\"{}.0\", or several of them with \"outputs\"",
                                        specs.back().name));
  return {{"output", {static_cast<int>(specs.size()) - 1}}};
}

}  // namespace

LayerList layers_of(const json& object, const std::vector<std::string>& inputs, const std::string& path) {
  if (!given(object, "layers") || !object["layers"].is_array() || object["layers"].empty())
    fail(path + ".layers", "expected a list of layers");
  const json& layers = object["layers"];
  if (layers.size() > kMaxLayers)
    fail(path + ".layers", fmt::format("at most {} layers, got {}", kMaxLayers, layers.size()));
  LayerList list;
  for (std::size_t i = 0; i < layers.size(); ++i)
    list.specs.push_back(parse_layer(layers[i], i, element(path + ".layers", i)));
  const Names by_name = names_of(list.specs, inputs);
  resolve_inputs(list.specs, by_name);
  list.order = running_order(list.specs);
  list.outputs = outputs_of(object, list.specs, by_name, path);
  list.named_outputs = given(object, "outputs");
  check_all_used(list.specs, list.outputs);
  return list;
}

}  // namespace tandem::models
