// Graph: builder of an ONNX graph of nodes, weights and constants, with unique and reproducible names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"
#include "export/free_extents.h"
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
  explicit Graph(int opset, const FreeExtents& free = {}) : opset_(opset), free_(free) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Prefix of the names of later nodes.
  void set_layer(const std::string& path) { layer_ = path; }

  int opset() const { return opset_; }
  const FreeExtents& free() const { return free_; }

  // While it lives, nodes and constants belong to no layer, and equal ones are one: parts that layers share,
  // such as masks.
  class Sharing {
   public:
    explicit Sharing(Graph& graph)
        : graph_(graph),
          layer_(std::exchange(graph.layer_, "")),
          before_(std::exchange(graph.sharing_, true)) {}
    ~Sharing() {
      graph_.sharing_ = before_;
      graph_.layer_ = std::move(layer_);
    }
    Sharing(const Sharing&) = delete;
    Sharing& operator=(const Sharing&) = delete;

   private:
    Graph& graph_;
    std::string layer_;
    bool before_;
  };

  // f32 tensor on the host, in ONNX's layout.
  void add_weight(const std::string& name, const Tensor& tensor);
  // The same with the layer as prefix; returns the name.
  std::string add_packed_weight(const std::string& name, const Tensor& tensor);
  // Removes weights that no node uses.
  void drop_unused_weights();
  // Throws UserError if a value depends on free extents, apart from the batch.
  void require_no_steps(std::span<const Index> values) const;
  // Throws UserError unless both graphs have the same nodes and tensors, apart from names of free extents.
  void require_same(const Graph& other) const;
  // Return the name. Throw UserError if they would depend on free extents, apart from the batch.
  std::string constant(double value);                                // f32 scalar
  std::string constant(const std::vector<Index>& values);            // i64 [n]
  std::string constant(const std::vector<double>& values);           // f32 [n]
  std::string filled(double value, std::span<const Index> extents);  // f32
  // i64 [1]: an extent other than the batch; free ones are read off the shapes of the inputs.
  std::string extent(Index value);

  // Adds a node and returns the name of its output. An input "" is a missing optional one.
  std::string add(const std::string& op, std::vector<std::string> inputs, const Attributes& attributes = {});
  // The same for an operator with several outputs.
  std::vector<std::string> add(const std::string& op, std::vector<std::string> inputs, int outputs,
                               const Attributes& attributes);
  // Parts of `x` along an axis of ONNX, all of one extent.
  std::vector<std::string> split_evenly(const std::string& x, int parts, Index axis);
  std::string reduced_mean(const std::string& x, const std::vector<Index>& axes, bool keep_axes);

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
    friend bool operator==(const Node&, const Node&) = default;
  };
  using Message = files::ProtobufMessage;

  [[noreturn]] void fail_for_steps(const std::string& place) const;
  std::string unique(const std::string& name);
  void add_tensor(const std::string& name, std::span<const Index> extents, DType dtype, const void* data);
  std::string add_constant(std::span<const Index> extents, DType dtype, const void* data);

  int opset_;
  FreeExtents free_;
  bool sharing_ = false;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Message>> tensors_, inputs_, outputs_;  // by their names
  std::string layer_;
  std::set<std::string> names_;
  std::map<std::pair<std::string, std::vector<int>>, std::string> arranged_;
  std::map<std::pair<std::string, OnnxType>, std::string> typed_;
  // Of Sharing: nodes, and constants by type, extents and bytes.
  std::map<std::tuple<std::string, std::vector<std::string>, Attributes>, std::vector<std::string>> shared_;
  std::map<std::tuple<DType, std::vector<Index>, std::string>, std::string> shared_constants_;
  std::map<Index, std::pair<std::string, Index>> sources_;  // of free extents: an input and its axis
};

}  // namespace tandem::exporting
