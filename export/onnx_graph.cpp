#include "export/onnx_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/error.h"
#include "export/onnx.pb.h"

namespace tandem::exporting {

namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

// Permutation between two axis orders: to[i] = from[result[i]].
std::vector<Index> permutation(const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<Index> result;
  for (const int axis : to) result.push_back(std::ranges::find(from, axis) - from.begin());
  return result;
}

void set_attribute(onnx::AttributeProto& proto, const Attribute& value) {
  if (const auto* integer = std::get_if<Index>(&value)) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(*text);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& each : *texts) proto.add_strings(each);
  } else {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const Index each : std::get<std::vector<Index>>(value)) proto.add_ints(each);
  }
}

onnx::TensorProto::DataType type_of(DType dtype) {
  return dtype == DType::i64 ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT;
}

void set_type(onnx::ValueInfoProto& info, const std::string& name, const Value& value, DType dtype,
              Index steps, const std::string& rows = "N") {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type_of(dtype));
  for (const int axis : value.order) {
    auto& extent = *tensor.mutable_shape()->add_dim();
    if (value.shape[axis] == 0) {
      extent.set_dim_param(rows);
    } else if (steps > 0 && value.shape[axis] == steps) {
      extent.set_dim_param("T");
    } else {
      extent.set_dim_value(value.shape[axis]);
    }
  }
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

Graph::Graph(Index steps) : steps_(steps), message_(std::make_unique<onnx::GraphProto>()) {
  message_->set_name("tandem");
}
Graph::~Graph() = default;

std::string Graph::unique(const std::string& name) {
  std::string result = name;
  for (int i = 2; !names_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
  return result;
}

void Graph::add_tensor(const std::string& name, std::span<const Index> extents, DType dtype,
                       const void* data) {
  auto& tensor = *message_->add_initializer();
  for (const Index extent : extents) tensor.add_dims(extent);
  tensor.set_data_type(type_of(dtype));
  tensor.set_name(name);
  tensor.set_raw_data(data, static_cast<std::size_t>(Shape(extents).numel()) * size_of(dtype));
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
  for (const auto& node : message_->node()) used.insert(node.input().begin(), node.input().end());
  auto& tensors = *message_->mutable_initializer();
  const auto unused = std::remove_if(tensors.begin(), tensors.end(),
                                     [&](const auto& tensor) { return !used.contains(tensor.name()); });
  tensors.erase(unused, tensors.end());
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
  auto& node = *message_->add_node();
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (const std::string& name : names) node.add_output(name);
  node.set_name(names[0]);
  node.set_op_type(op);
  for (const auto& [key, value] : attributes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(key);
    set_attribute(attribute, value);
  }
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
  set_type(*message_->add_input(), value.name, value, dtype, steps_);
}

void Graph::add_output(const Value& value, const std::string& name, DType dtype, const std::string& rows) {
  const Value result = as_here(value);
  ensure(names_.insert(name).second, "onnx", "two tensors are called \"{}\"", name);
  // A value that is an output already keeps its name.
  const auto is_output = [&](const auto& output) { return output.name() == result.name; };
  bool made = false;
  for (const auto& node : message_->node())
    made |= std::ranges::find(node.output(), result.name) != node.output().end();
  const bool taken = std::ranges::any_of(message_->output(), is_output);
  set_type(*message_->add_output(), name, result, dtype, steps_, rows);
  if (!made || taken) {  // an output that is an input, a weight, or another output
    auto& node = *message_->add_node();
    node.add_input(result.name);
    node.add_output(name);
    node.set_name(name);
    node.set_op_type("Identity");
    return;
  }
  const auto rename = [&](std::string& other) {
    if (other == result.name) other = name;
  };
  for (auto& node : *message_->mutable_node()) {
    for (std::string& output : *node.mutable_output()) rename(output);
    for (std::string& input : *node.mutable_input()) rename(input);
  }
}

}  // namespace tandem::exporting
