// The translation of each op to ONNX, opset 17.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/apply.h"
#include "export/onnx_graph.h"
#include "export/trace.h"

namespace tandem::exporting {

// Gives the tensors that an op takes from its options, such as running statistics and lengths, beside its
// inputs.
using WeightLookup = std::function<Value(const Tensor&)>;

struct TranslationContext {
  Graph& graph;
  const Call& call;
  // One for each of call.inputs; absent ones have no name. A weight that no node takes is not in the file.
  const std::vector<Value>& inputs;
  const WeightLookup& weight;

  // Throws UserError that names the layer, the op and `why`.
  [[noreturn]] void refuse(const std::string& why) const;
  // A result of the op, which has the shape that the op gave here.
  Value result(std::string name, std::vector<int> order, std::size_t output = 0) const;
  Value result(std::string name) const;  // the first one, with its axes as here
};

// Adds the nodes for one call and returns its outputs; those behind the last one given have no counterpart.
using Translation = std::function<std::vector<Value>(const TranslationContext&)>;

// To the ONNX operator that the op names itself (OpTraits::onnx).
std::vector<Value> translate_by_name(const TranslationContext& context);

// Ops that need more than a name.
using TranslationTable = std::map<const OpInfo*, Translation>;
void add_layer_translations(TranslationTable& table);        // convolutions, products, norms, pools
void add_elementwise_translations(TranslationTable& table);  // activations and arithmetic
void add_shape_translations(TranslationTable& table);        // what moves elements, softmax, reductions
void add_recurrent_translations(TranslationTable& table);    // lstm, gru, rnn

// Files a function Value(const TranslationContext&, const Op&), or std::vector<Value>(…), for an op.
template <class Op, class Outputs>
void add_translation(TranslationTable& table, Outputs (*translate)(const TranslationContext&, const Op&)) {
  table[&Op::info] = [translate](const TranslationContext& context) -> std::vector<Value> {
    const Op* op = op_of<Op>(context.call.outputs.at(0));
    ensure(op != nullptr, "onnx", "the tape has lost the {} of layer \"{}\"", Op::info.name,
           context.call.layer);
    return {translate(context, *op)};
  };
}

}  // namespace tandem::exporting
