// Recurrent layers: one node for each layer and direction. ONNX orders the gates of LSTM as i o f c and those
// of GRU as z r h, and has the two biases in one tensor.
#include <algorithm>

#include "autograd/leaf.h"
#include "autograd/ops/rnn_ops.h"
#include "export/onnx_translation.h"

namespace tandem::exporting {

namespace {

enum Input : std::uint8_t { kX, kH0, kC0, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kWeightHr };

// Indices of ONNX's gates in Tandem's order.
std::vector<Index> gate_order(RnnCell cell) {
  if (cell == RnnCell::lstm) return {0, 3, 1, 2};
  if (cell == RnnCell::gru) return {1, 0, 2};
  return {0};
}

// Concatenated weights with gates in ONNX's order.
class Packed {
 public:
  Packed(RnnCell cell, Index units) : order_(gate_order(cell)), units_(units) {}

  // [G·H,…]; an absent bias is zero.
  void add(const Tensor& weight) {
    const Index gates = static_cast<Index>(order_.size());
    const std::vector<float> values = weight.defined()
                                          ? weight.to(Device{}).to_vector<float>()
                                          : std::vector<float>(static_cast<std::size_t>(gates * units_));
    const std::ptrdiff_t block = std::ssize(values) / gates;
    for (const Index gate : order_) {
      const auto first = values.begin() + gate * block;
      values_.insert(values_.end(), first, first + block);
    }
  }
  // f32
  Tensor tensor(const Shape& shape) const { return Tensor::from(values_, shape); }

 private:
  std::vector<Index> order_;
  Index units_;
  std::vector<float> values_;
};

void check(const TranslationContext& context) {
  const TensorList& in = context.call.inputs;
  if (in[kWeightHr].defined())
    context.refuse(
        "ONNX does not support the projection of an LSTM's outputs; train without it (projection 0)");
  for (const std::size_t i : {kWeightIh, kWeightHh, kBiasIh, kBiasHh})
    if (in[i].defined() && !dynamic_cast<const Leaf*>(node_of(in[i])))
      context.refuse(
          "a weight is the result of an op; it must be a parameter, since ONNX has another order of gates");
}

// W, R, B of the node; B is absent if both biases are.
std::array<std::string, 3> weights_of(const TranslationContext& context, RnnCell cell) {
  const TensorList& in = context.call.inputs;
  const Index inputs = in[kWeightIh].size(1), units = in[kWeightHh].size(1), rows = gates_of(cell) * units;
  Packed w(cell, units), r(cell, units), b(cell, units);
  w.add(in[kWeightIh]);
  r.add(in[kWeightHh]);
  std::array<std::string, 3> names{context.graph.add_packed_weight("W", w.tensor({1, rows, inputs})),
                                   context.graph.add_packed_weight("R", r.tensor({1, rows, units})), ""};
  if (!in[kBiasIh].defined() && !in[kBiasHh].defined()) return names;
  b.add(in[kBiasIh]);
  b.add(in[kBiasHh]);
  names[2] = context.graph.add_packed_weight("B", b.tensor({1, 2 * rows}));
  return names;
}

const char* operator_of(RnnCell cell) {
  return cell == RnnCell::lstm ? "LSTM" : cell == RnnCell::gru ? "GRU" : "RNN";
}

Attributes attributes_of(const RnnOptions& options, Index units) {
  Attributes attributes{{"direction", options.reverse ? "reverse" : "forward"}, {"hidden_size", units}};
  if (options.cell == RnnCell::gru) attributes.emplace_back("linear_before_reset", Index{1});
  if (options.cell == RnnCell::rnn_relu)
    attributes.emplace_back("activations", std::vector<std::string>{"Relu"});
  return attributes;
}

// The node has an additional axis for the direction: Y [T,1,N,H], states [1,N,H].
std::vector<Value> recurrent(const TranslationContext& context, const RnnOptions& options) {
  check(context);
  Graph& graph = context.graph;
  const auto& in = context.inputs;
  const bool lstm = options.cell == RnnCell::lstm;
  const auto axis = [&](Index at) { return graph.constant(std::vector<Index>{at}); };
  const auto initial = [&](const Value& state) {
    return state.defined() ? graph.add("Unsqueeze", {graph.as_here(state).name, axis(0)}) : std::string();
  };
  const auto [w, r, b] = weights_of(context, options.cell);
  const std::string lengths =
      options.lengths.defined() ? graph.as_type(context.weight(options.lengths).name, OnnxType::i32) : "";
  std::vector<std::string> taken{graph.as_here(in[kX]).name, w, r, b, lengths, initial(in[kH0])};
  if (lstm) taken.push_back(initial(in[kC0]));
  const std::vector<std::string> given =
      graph.add(operator_of(options.cell), taken, lstm ? 3 : 2,
                attributes_of(options, context.call.inputs[kWeightHh].size(1)));
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < given.size(); ++i)
    outputs.push_back(context.result(graph.add("Squeeze", {given[i], axis(i == 0 ? 1 : 0)}),
                                     same_order(context.call.outputs[i].rank()), i));
  return outputs;
}

std::vector<Value> lstm(const TranslationContext& context, const ops::Lstm& op) {
  return recurrent(context, op.options);
}
std::vector<Value> gru(const TranslationContext& context, const ops::Gru& op) {
  return recurrent(context, op.options);
}
std::vector<Value> rnn(const TranslationContext& context, const ops::Rnn& op) {
  return recurrent(context, op.options);
}

}  // namespace

void add_recurrent_translations(TranslationTable& table) {
  add_translation(table, lstm);
  add_translation(table, gru);
  add_translation(table, rnn);
}

}  // namespace tandem::exporting
