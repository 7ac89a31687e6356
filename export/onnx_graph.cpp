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
Message value_message(const std::string& name, const Value& value, DType dtype, Index steps,
                      const std::string& rows = "N") {
  Message shape;
  for (const int axis : value.order) {
    const Index extent = value.shape[axis];
    if (extent == 0)
      shape.message(1, Message().bytes(2, rows));
    else if (steps > 0 && extent == steps)
      shape.message(1, Message().bytes(2, "T"));
    else
      shape.message(1, Message().integer(1, extent));
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

void Graph::require_no_steps(std::span<const Index> values) const {
  const bool depends =
      steps_ > 0 && std::ranges::any_of(values, [&](Index v) { return v != 0 && v % steps_ == 0; });
  require(!depends, "onnx",
          "layer \"{}\" depends on the sequence length, which is dynamic in the file; the formats "
          "safetensors and npz contain the weights of any model",
          layer_);
}

std::string Graph::constant(double value) { return filled(value, {}); }

std::string Graph::constant(const std::vector<Index>& values) {
  require_no_steps(values);
  const std::string name = unique("constant");
  const Index extents[] = {static_cast<Index>(values.size())};
  add_tensor(name, extents, DType::i64, values.data());
  return name;
}

std::string Graph::constant(const std::vector<double>& values) {
  const std::string name = unique("constant");
  const std::vector<float> rounded(values.begin(), values.end());
  const Index extents[] = {static_cast<Index>(values.size())};
  add_tensor(name, extents, DType::f32, rounded.data());
  return name;
}

std::string Graph::filled(double value, std::span<const Index> extents) {
  require_no_steps(extents);
  const std::string name = unique("constant");
  const Tensor values = Tensor::full(Shape(extents), value);
  add_tensor(name, extents, DType::f32, values.raw());
  return name;
}

std::string Graph::add(const std::string& op, std::vector<std::string> inputs, const Attributes& attributes) {
  return add(op, std::move(inputs), 1, attributes)[0];
}

std::vector<std::string> Graph::add(const std::string& op, std::vector<std::string> inputs, int outputs,
                                    const Attributes& attributes) {
  const std::string base = layer_.empty() ? op : layer_ + "/" + op;
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(unique(base));
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  nodes_.push_back({names[0], op, std::move(inputs), names, attributes});
  return names;
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
  inputs_.emplace_back(value.name, value_message(value.name, value, dtype, steps_));
}

void Graph::add_output(const Value& value, const std::string& name, DType dtype, const std::string& rows) {
  const Value result = as_here(value);
  ensure(names_.insert(name).second, "onnx", "two tensors are called \"{}\"", name);
  const bool made = std::ranges::any_of(
      nodes_, [&](const Node& node) { return std::ranges::count(node.outputs, result.name) > 0; });
  // A value that is an output already keeps its name.
  const bool taken =
      std::ranges::any_of(outputs_, [&](const auto& output) { return output.first == result.name; });
  outputs_.emplace_back(name, value_message(name, result, dtype, steps_, rows));
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
