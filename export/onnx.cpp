#include "export/onnx.h"

#include <fmt/ranges.h>

#include <limits>
#include <map>
#include <memory>

#include "autograd/modes.h"
#include "autograd/ops/all_ops.h"
#include "core/error.h"
#include "export/onnx_translation.h"
#include "models/weights.h"

namespace tandem::exporting {

namespace {

// Parameters, statistics and constants by address; each is added to the graph at its first use.
class Weights {
 public:
  Weights(nn::Module& model, Graph& graph) : graph_(graph) {
    for (const Parameter& parameter : model.parameters())
      entries_[parameter.value().raw()] = {parameter.name(), parameter.value(), parameter.layout()};
    for (const nn::Statistic& statistic : model.statistics())
      entries_[statistic.live.raw()] = {statistic.name, statistic.live, ParameterLayout::plain};
    for (const nn::Constant& constant : model.constants())
      entries_[constant.value.raw()] = {constant.name, constant.value, ParameterLayout::plain};
  }

  // Without a name if `tensor` is none of them.
  Value find(const Tensor& tensor) {
    const auto found = entries_.find(tensor.raw());
    if (found == entries_.end() || found->second.value.shape() != tensor.shape()) return {};
    Entry& entry = found->second;
    const int rank = tensor.rank();
    const bool plain = entry.layout == ParameterLayout::plain;
    if (!entry.added)
      graph_.add_weight(entry.name, models::to_file_layout(entry.value.to(Device{}), entry.layout));
    entry.added = true;
    return {.name = entry.name,
            .shape = tensor.shape(),
            .order = plain ? same_order(rank) : channels_first(rank)};
  }

 private:
  struct Entry {
    std::string name;
    Tensor value;
    ParameterLayout layout = ParameterLayout::plain;
    bool added = false;
  };
  Graph& graph_;
  std::map<const void*, Entry> entries_;
};

const TranslationTable& translations() {
  static const TranslationTable table = [] {
    TranslationTable all;
    add_layer_translations(all);
    add_elementwise_translations(all);
    add_shape_translations(all);
    add_attention_translations(all);
    add_recurrent_translations(all);
    return all;
  }();
  return table;
}

// The part to export, or all of a model with ports; absent for a model of one tensor.
std::optional<nn::Part> part_of(nn::Module& model, const OnnxOptions& options) {
  if (options.part) return options.part;
  const auto* const ports = dynamic_cast<const nn::Ports*>(&model);
  if (ports == nullptr) return std::nullopt;
  return nn::Part{.name = "",
                  .inputs = ports->inputs(),
                  .outputs = ports->outputs(),
                  .forward = [&model](const TensorList& inputs) { return model.all_outputs(inputs); },
                  .longest = ports->longest_steps()};
}

bool has_no_translation(const OpInfo& info) { return !info.traits.onnx && !translations().contains(&info); }

// Adds the ops of the trace as nodes.
class Exporter {
 public:
  Exporter(nn::Module& model, Graph& graph, const OnnxOptions& options)
      : graph_(graph), options_(options), weights_(model, graph) {}

  void add(const Trace& trace, const std::optional<nn::Part>& part) {
    for (std::size_t i = 0; i < trace.inputs.size(); ++i)
      add_input(trace.inputs[i], part ? part->inputs[i].name : "", part.has_value());
    for (const Call& call : trace.calls) add(call);
    graph_.set_layer("");
    const std::vector<std::string> outputs = part                       ? part->outputs
                                             : options_.outputs.empty() ? std::vector<std::string>{"logits"}
                                                                        : options_.outputs;
    ensure(outputs.size() == trace.outputs.size(), "onnx", "the model returns {} tensors, its ports are {}",
           trace.outputs.size(), outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      graph_.add_output(
          value_of(trace.outputs[i], {.layer = "", .description = "the model", .info = nullptr}), outputs[i]);
    if (options_.suppression) add_selection(*options_.suppression);
    graph_.drop_unused_weights();
  }

 private:
  using Place = std::pair<const void*, std::uint32_t>;  // tape node and output index

  // Images have ONNX's layout; inputs of ports keep theirs.
  void add_input(const Tensor& tensor, const std::string& port, bool plain) {
    const int rank = tensor.rank();
    const bool indices = tensor.dtype() == DType::i64, spatial = !plain && rank == 4 && !indices;
    const char* const usual = spatial ? "images" : indices ? "indices" : "features";
    const Value input{.name = plain                    ? port
                              : options_.input.empty() ? usual
                                                       : options_.input,
                      .shape = tensor.shape(),
                      .order = spatial ? channels_first(rank) : same_order(rank)};
    graph_.add_input(input, tensor.dtype());
    remember(tensor, input);
  }

  // Class 0 is the background, so ONNX's class numbers are smaller by one.
  void add_selection(const nn::Suppression& suppression) {
    const auto list = [&](Index value) { return graph_.constant(std::vector<Index>{value}); };
    const std::string all = list(std::numeric_limits<std::int64_t>::max());
    const std::string objects = graph_.add("Slice", {"scores", list(1), all, list(2)});
    const std::string selected = graph_.add(
        "NonMaxSuppression",
        {"boxes", graph_.add("Transpose", {objects}, {{"perm", std::vector<Index>{0, 2, 1}}}),
         list(suppression.most), graph_.constant(suppression.overlap), graph_.constant(suppression.score)});
    graph_.add_output({.name = graph_.add("Add", {selected, graph_.constant(std::vector<Index>{0, 1, 0})}),
                       .shape = {0, 3},
                       .order = same_order(2)},
                      "selected", DType::i64, "M");
  }

  void remember(const Tensor& tensor, const Value& value) {
    if (!tensor.requires_grad()) {
      untaped_.emplace_back(tensor, value);
      return;
    }
    values_[Place(tensor.edge().node.get(), tensor.edge().output)] = value;
  }

  Value value_of(const Tensor& tensor, const Call& call) {
    if (!tensor.defined()) return {};
    if (tensor.requires_grad()) {
      const auto found = values_.find(Place(tensor.edge().node.get(), tensor.edge().output));
      if (found != values_.end()) return found->second;
    }
    for (const auto& [known, value] : untaped_)
      if (tensor.is_same(known) && tensor.shape() == known.shape()) return value;
    const Value weight = weights_.find(tensor);
    require(weight.defined(), "onnx",
            "layer \"{}\", {}: uses {}, which is neither the input, nor a parameter, statistic or constant "
            "of the model, nor the result of an op; make it a parameter, and use ops to change tensors",
            call.layer, call.description, to_string(tensor));
    return weight;
  }

  void add(const Call& call) {
    graph_.set_layer(call.layer);
    const WeightLookup weight = [&](const Tensor& tensor) { return value_of(tensor, call); };
    const auto found = translations().find(call.info);
    if (has_no_translation(*call.info))
      TranslationContext{graph_, call, {}, weight}.refuse(
          fmt::format("the op has no translation; supported ops: {}", fmt::join(onnx_ops(), ", ")));
    std::vector<Value> inputs;
    for (const Tensor& input : call.inputs) inputs.push_back(value_of(input, call));
    const TranslationContext context{graph_, call, inputs, weight};
    const std::vector<Value> outputs =
        found == translations().end() ? translate_by_name(context) : found->second(context);
    for (std::size_t i = 0; i < outputs.size(); ++i) remember(call.outputs[i], outputs[i]);
  }

  Graph& graph_;
  const OnnxOptions& options_;
  Weights weights_;
  std::map<Place, Value> values_;
  std::vector<std::pair<Tensor, Value>> untaped_;  // integer inputs and values derived only from them
};

}  // namespace

void TranslationContext::refuse(const std::string& why) const {
  throw UserError(
      "onnx",
      fmt::format(
          "layer \"{}\", {}: {}: {}; the formats safetensors and npz contain the weights of any model",
          call.layer, call.description, call.info->name, why));
}

Value TranslationContext::result(std::string name, std::vector<int> order, std::size_t output) const {
  return {.name = std::move(name), .shape = call.outputs.at(output).shape(), .order = std::move(order)};
}

Value TranslationContext::result(std::string name) const {
  return result(std::move(name), same_order(call.outputs.at(0).rank()));
}

std::vector<std::string> onnx_ops() {
  std::vector<std::string> names;
  for (const OpInfo* info : all_op_infos())
    if (!has_no_translation(*info)) names.emplace_back(info->name);
  return names;
}

std::string onnx_model(nn::Module& model, const Shape& sample, const OnnxOptions& options) {
  require(options.opset == 17 || options.opset == 23, "onnx", "the opset must be 17 or 23, got {}",
          options.opset);
  const std::optional<nn::Part> part = part_of(model, options);
  const ComposedOps untranslated(has_no_translation);
  const auto graph_of = [&](const Trace& trace) {
    auto graph = std::make_unique<Graph>(options.opset, trace.free);
    Exporter(model, *graph, options).add(trace, part);
    return graph;
  };
  std::unique_ptr<Graph> graph;
  if (part) {
    const std::vector<FreeExtents> choices = free_extents(model, *part);
    graph = graph_of(trace_evaluation(model, *part, choices.front()));
    if (choices.size() > 1) graph->require_same(*graph_of(trace_evaluation(model, *part, choices.back())));
  } else {
    graph = graph_of(trace_evaluation(model, sample, options.dtype, options.graph));
  }
  files::ProtobufMessage file;  // a ModelProto
  file.integer(1, options.opset == 17 ? 8 : 11)
      .bytes(2, "tandem")
      .bytes(3, options.producer_version)
      .message(7, graph->message());
  file.message(8, files::ProtobufMessage().bytes(1, "").integer(2, options.opset));
  for (const auto& [key, value] : options.metadata)
    file.message(14, files::ProtobufMessage().bytes(1, key).bytes(2, value));
  const std::size_t bytes = file.bytes().size();
  require(bytes <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "onnx",
          "the file would have {} bytes, and the format has at most 2 GiB; safetensors has no such limit",
          bytes);
  return file.bytes();
}

}  // namespace tandem::exporting
