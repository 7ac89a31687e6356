#include "export/onnx_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace tandem::exporting {

namespace {

// Messages and numbers of fields of the specification
// (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
using Message = files::ProtobufMessage;

// Permutation between two axis orders: to[i] = from[result[i]].
std::vector<Index> permutation(const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<Index> result;
  for (const int axis : to) result.push_back(std::ranges::find(from, axis) - from.begin());
  return result;
}

// An AttributeProto. Field 20 is its type: 1 FLOAT, 2 INT, 3 STRING, 7 INTS, 8 STRINGS.
Message attribute_message(const std::string& name, const Attribute& value) {
  Message message;
  message.bytes(1, name);
  if (const auto* integer = std::get_if<Index>(&value)) return message.integer(3, *integer).integer(20, 2);
  if (const auto* real = std::get_if<double>(&value))
    return message.real(2, static_cast<float>(*real)).integer(20, 1);
  if (const auto* text = std::get_if<std::string>(&value)) return message.bytes(4, *text).integer(20, 3);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& each : *texts) message.bytes(9, each);
    return message.integer(20, 8);
  }
  for (const Index each : std::get<std::vector<Index>>(value)) message.integer(8, each);
  return message.integer(20, 7);
}

Index type_of(DType dtype) { return static_cast<Index>(dtype == DType::i64 ? OnnxType::i64 : OnnxType::f32); }

// A ValueInfoProto.
Message value_message(const std::string& name, const Value& value, DType dtype, const FreeExtents& free,
                      const std::string& rows = "N") {
  Message shape;
  for (const int axis : value.order) {
    const Index extent = value.shape[axis];
    const std::string varies = extent == 0 ? rows : free.name_of(extent);
    shape.message(1, varies.empty() ? Message().integer(1, extent) : Message().bytes(2, varies));
  }
  const Message tensor = Message().integer(1, type_of(dtype)).message(2, shape);
  return Message().bytes(1, name).message(2, Message().message(1, tensor));
}

}  // namespace

Index Value::axis_there(int axis) const { return std::ranges::find(order, axis) - order.begin(); }

std::vector<int> same_order(int rank) {
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int> channels_first(int rank) {
  std::vector<int> order = same_order(rank);
  if (rank > 2) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

Message Graph::message() const {
  Message graph;
  for (const Node& each : nodes_) {
    Message node;
    for (const std::string& input : each.inputs) node.bytes(1, input);
    for (const std::string& output : each.outputs) node.bytes(2, output);
    node.bytes(3, each.name).bytes(4, each.op);
    for (const auto& [name, value] : each.attributes) node.message(5, attribute_message(name, value));
    graph.message(1, node);
  }
  graph.bytes(2, "tandem");
  for (const auto& [name, tensor] : tensors_) graph.message(5, tensor);
  for (const auto& [name, input] : inputs_) graph.message(11, input);
  for (const auto& [name, output] : outputs_) graph.message(12, output);
  return graph;
}

std::string Graph::unique(const std::string& name) {
  std::string result = name;
  for (int i = 2; !names_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
  return result;
}

void Graph::add_tensor(const std::string& name, std::span<const Index> extents, DType dtype,
                       const void* data) {
  Message tensor;  // a TensorProto
  for (const Index extent : extents) tensor.integer(1, extent);
  const std::size_t size = static_cast<std::size_t>(Shape(extents).numel()) * size_of(dtype);
  tensor.integer(2, type_of(dtype)).bytes(8, name).bytes(9, {static_cast<const char*>(data), size});
  tensors_.emplace_back(name, std::move(tensor));
}

std::string Graph::add_constant(std::span<const Index> extents, DType dtype, const void* data) {
  const std::size_t bytes = static_cast<std::size_t>(Shape(extents).numel()) * size_of(dtype);
  std::string own;
  std::string& name =
      sharing_
          ? shared_constants_[{
                dtype, {extents.begin(), extents.end()}, std::string(static_cast<const char*>(data), bytes)}]
          : own;
  if (name.empty()) {
    name = unique("constant");
    add_tensor(name, extents, dtype, data);
  }
  return name;
}

void Graph::add_weight(const std::string& name, const Tensor& tensor) {
  ensure(names_.insert(name).second, "onnx", "two tensors are called \"{}\"", name);
  ensure(tensor.dtype() == DType::f32 && tensor.device() == Device{}, "onnx", "weight \"{}\" is {}", name,
         to_string(tensor));
  add_tensor(name, tensor.shape().extents(), DType::f32, tensor.raw());
}

std::string Graph::add_packed_weight(const std::string& name, const Tensor& tensor) {
  const std::string own = unique(layer_.empty() ? name : layer_ + "/" + name);
  names_.erase(own);
  add_weight(own, tensor);
  return own;
}

void Graph::drop_unused_weights() {
  std::set<std::string> used;
  for (const Node& node : nodes_) used.insert(node.inputs.begin(), node.inputs.end());
  std::erase_if(tensors_, [&](const auto& tensor) { return !used.contains(tensor.first); });
}

void Graph::fail_for_steps(const std::string& place) const {
  throw UserError("onnx", fmt::format("{} depends on the sequence length, which is dynamic in the file; the "
                                      "formats safetensors and npz contain the weights of any model",
                                      place));
}

void Graph::require_no_steps(std::span<const Index> values) const {
  if (std::ranges::any_of(values, [&](Index value) { return free_.is_made_of_free(value); }))
    fail_for_steps(fmt::format("layer \"{}\"", layer_));
}

void Graph::require_same(const Graph& other) const {
  const auto [node, other_node] = std::ranges::mismatch(nodes_, other.nodes_);
  if (node != nodes_.end() || other_node != other.nodes_.end())
    fail_for_steps(fmt::format("node \"{}\"", node != nodes_.end() ? node->name : other_node->name));
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.bytes() == b.second.bytes();
  };
  const auto [tensor, other_tensor] = std::ranges::mismatch(tensors_, other.tensors_, same);
  if (tensor != tensors_.end() || other_tensor != other.tensors_.end()) {
    const std::string& name = tensor != tensors_.end() ? tensor->first : other_tensor->first;
    const auto reader = std::ranges::find_if(
        nodes_, [&](const Node& each) { return std::ranges::count(each.inputs, name) > 0; });
    fail_for_steps(fmt::format("node \"{}\"", reader != nodes_.end() ? reader->name : name));
  }
}

std::string Graph::constant(double value) { return filled(value, {}); }

std::string Graph::constant(const std::vector<Index>& values) {
  require_no_steps(values);
  const Index extents[] = {static_cast<Index>(values.size())};
  return add_constant(extents, DType::i64, values.data());
}

std::string Graph::constant(const std::vector<double>& values) {
  const std::vector<float> rounded(values.begin(), values.end());
  const Index extents[] = {static_cast<Index>(values.size())};
  return add_constant(extents, DType::f32, rounded.data());
}

std::string Graph::filled(double value, std::span<const Index> extents) {
  require_no_steps(extents);
  const Tensor values = Tensor::full(Shape(extents), value);
  return add_constant(extents, DType::f32, values.raw());
}

std::string Graph::extent(Index value) {
  const Sharing sharing(*this);
  if (!free_.contains(value)) return constant(std::vector<Index>{value});
  if (value == free_.past + free_.steps && free_.past > 0)
    return add("Add", {extent(free_.past), extent(free_.steps)});
  const auto source = sources_.find(value);
  ensure(source != sources_.end(), "onnx", "no input has the extent {}", value);
  const auto& [input, axis] = source->second;
  return add("Shape", {input}, {{"start", axis}, {"end", axis + 1}});
}

std::string Graph::add(const std::string& op, std::vector<std::string> inputs, const Attributes& attributes) {
  return add(op, std::move(inputs), 1, attributes)[0];
}

std::vector<std::string> Graph::add(const std::string& op, std::vector<std::string> inputs, int outputs,
                                    const Attributes& attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  std::vector<std::string> own, &names = sharing_ ? shared_[{op, inputs, attributes}] : own;
  if (!names.empty()) return names;
  const std::string base = layer_.empty() ? op : layer_ + "/" + op;
  for (int i = 0; i < outputs; ++i) names.push_back(unique(base));
  nodes_.push_back({names[0], op, std::move(inputs), names, attributes});
  return names;
}

std::vector<std::string> Graph::split_evenly(const std::string& x, int parts, Index axis) {
  Attributes attributes{{"axis", axis}};
  if (opset_ >= 18) attributes.emplace_back("num_outputs", Index{parts});
  return add("Split", {x}, parts, attributes);
}

std::string Graph::reduced_mean(const std::string& x, const std::vector<Index>& axes, bool keep_axes) {
  if (opset_ >= 18) return add("ReduceMean", {x, constant(axes)}, {{"keepdims", Index{keep_axes}}});
  return add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", Index{keep_axes}}});
}

Value Graph::arranged(const Value& value, const std::vector<int>& order) {
  if (value.order == order) return value;
  Value result{.name = {}, .shape = value.shape, .order = order};
  const std::vector<Index> perm = permutation(value.order, order);
  std::string& name = arranged_[{value.name, {perm.begin(), perm.end()}}];
  if (name.empty()) name = add("Transpose", {value.name}, {{"perm", perm}});
  result.name = name;
  return result;
}

std::string Graph::as_type(const std::string& name, OnnxType type) {
  std::string& typed = typed_[{name, type}];
  if (typed.empty()) typed = add("Cast", {name}, {{"to", static_cast<Index>(type)}});
  return typed;
}

void Graph::add_input(const Value& value, DType dtype) {
  ensure(names_.insert(value.name).second, "onnx", "two tensors are called \"{}\"", value.name);
  inputs_.emplace_back(value.name, value_message(value.name, value, dtype, free_));
  for (int axis = 0; axis < value.rank(); ++axis)
    if (free_.contains(value.shape[axis]))
      sources_.try_emplace(value.shape[axis], value.name, value.axis_there(axis));
}

void Graph::add_output(const Value& value, const std::string& name, DType dtype, const std::string& rows) {
  const Value result = as_here(value);
  ensure(names_.insert(name).second, "onnx", "two tensors are called \"{}\"", name);
  const bool made = std::ranges::any_of(
      nodes_, [&](const Node& node) { return std::ranges::count(node.outputs, result.name) > 0; });
  // A value that is an output already keeps its name.
  const bool taken =
      std::ranges::any_of(outputs_, [&](const auto& output) { return output.first == result.name; });
  outputs_.emplace_back(name, value_message(name, result, dtype, free_, rows));
  if (!made || taken) {  // an output that is an input, a weight, or another output
    nodes_.push_back({name, "Identity", {result.name}, {name}, {}});
    return;
  }
  for (Node& node : nodes_) {
    std::ranges::replace(node.outputs, result.name, name);
    std::ranges::replace(node.inputs, result.name, name);
  }
}

}  // namespace tandem::exporting
