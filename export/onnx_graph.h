// Graph: builder of an ONNX graph of nodes, weights and constants, with unique and reproducible names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"
#include "files/protobuf.h"

namespace tandem::exporting {

// A tensor of the ONNX graph. Its axis i is axis order[i] in Tandem: {0,3,1,2} for an image [N,H,W,C], which
// is NCHW in ONNX. Absent if the name is empty.
struct Value {
  std::string name;
  Shape shape;  // in Tandem; an extent of 0 is the batch
  std::vector<int> order;

  bool defined() const { return !name.empty(); }
  int rank() const { return shape.rank(); }
  // Index of Tandem's axis `axis` in the ONNX tensor.
  Index axis_there(int axis) const;
};

// {0, 1, …}
std::vector<int> same_order(int rank);
// {0, rank-1, 1, …, rank-2}: the last axis moves behind the first, as ONNX's image ops expect.
std::vector<int> channels_first(int rank);

using Attribute = std::variant<Index, double, std::string, std::vector<Index>, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

// TensorProto.DataType of the specification.
enum class OnnxType : std::int32_t { f32 = 1, i32 = 6, i64 = 7 };

class Graph {
 public:
  // `steps`: the extent that represents the sequence length, "T" in ONNX; 0: none.
  explicit Graph(Index steps = 0) : steps_(steps) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Prefix of the names of later nodes.
  void set_layer(const std::string& path) { layer_ = path; }

  Index steps() const { return steps_; }

  // f32 tensor on the host, in ONNX's layout.
  void add_weight(const std::string& name, const Tensor& tensor);
  // The same with the layer as prefix; returns the name.
  std::string add_packed_weight(const std::string& name, const Tensor& tensor);
  // Removes weights that no node uses.
  void drop_unused_weights();
  // Throws UserError if a value depends on the sequence length.
  void require_no_steps(std::span<const Index> values) const;
  // Return the name. Throw UserError if they would depend on the sequence length.
  std::string constant(double value);                                // f32 scalar
  std::string constant(const std::vector<Index>& values);            // i64 [n]
  std::string constant(const std::vector<double>& values);           // f32 [n]
  std::string filled(double value, std::span<const Index> extents);  // f32

  // Adds a node and returns the name of its output. An input "" is a missing optional one.
  std::string add(const std::string& op, std::vector<std::string> inputs, const Attributes& attributes = {});
  // The same for an operator with several outputs.
  std::vector<std::string> add(const std::string& op, std::vector<std::string> inputs, int outputs,
                               const Attributes& attributes);

  // The value with its axes in `order`, through a Transpose if necessary, which is shared.
  Value arranged(const Value& value, const std::vector<int>& order);
  // In Tandem's axis order.
  Value as_here(const Value& value) { return arranged(value, same_order(value.rank())); }
  Value with_channels_first(const Value& value) { return arranged(value, channels_first(value.rank())); }

  // The value after a Cast, which is shared.
  std::string as_type(const std::string& name, OnnxType type);

  void add_input(const Value& value, DType dtype);  // f32 or i64
  // Makes `value` an output of the graph under `name`. An extent of 0 gets the name `rows`.
  void add_output(const Value& value, const std::string& name, DType dtype = DType::f32,
                  const std::string& rows = "N");

  files::ProtobufMessage message() const;  // a GraphProto

 private:
  struct Node {
    std::string name, op;
    std::vector<std::string> inputs, outputs;
    Attributes attributes;
  };
  using Message = files::ProtobufMessage;

  std::string unique(const std::string& name);
  void add_tensor(const std::string& name, std::span<const Index> extents, DType dtype, const void* data);

  Index steps_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Message>> tensors_, inputs_, outputs_;  // by their names
  std::string layer_;
  std::set<std::string> names_;
  std::map<std::pair<std::string, std::vector<int>>, std::string> arranged_;
  std::map<std::pair<std::string, OnnxType>, std::string> typed_;
};

}  // namespace tandem::exporting
