// Translations of ops to ONNX, opset 17 or 23.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/apply.h"
#include "export/onnx_graph.h"
#include "export/trace.h"

namespace tandem::exporting {

// Value of a tensor in an op's options, such as running statistics and lengths.
using WeightLookup = std::function<Value(const Tensor&)>;

struct TranslationContext {
  Graph& graph;
  const Call& call;
  // One for each of call.inputs; absent ones have no name. Weights that no node uses are not in the file.
  const std::vector<Value>& inputs;
  const WeightLookup& weight;

  // Throws UserError with the layer, the op and `why`.
  [[noreturn]] void refuse(const std::string& why) const;
  // Value of an output of the op, with the shape in the trace.
  Value result(std::string name, std::vector<int> order, std::size_t output = 0) const;
  Value result(std::string name) const;  // the first output, in Tandem's axis order
};

// Adds the nodes of a call and returns its outputs; further outputs have no translation.
using Translation = std::function<std::vector<Value>(const TranslationContext&)>;

// Translation to the ONNX operator in OpTraits::onnx.
std::vector<Value> translate_by_name(const TranslationContext& context);

// Translations of other ops.
using TranslationTable = std::map<const OpInfo*, Translation>;
void add_layer_translations(TranslationTable& table);        // convolutions, products, norms, pools
void add_elementwise_translations(TranslationTable& table);  // activations and arithmetic
void add_shape_translations(TranslationTable& table);        // shape ops, softmax, reductions
void add_attention_translations(TranslationTable& table);    // attention, masked softmax
void add_recurrent_translations(TranslationTable& table);    // lstm, gru, rnn

// Registers a function Value(const TranslationContext&, const Op&), or std::vector<Value>(…), for an op.
template <class Op, class Outputs>
void add_translation(TranslationTable& table, Outputs (*translate)(const TranslationContext&, const Op&)) {
  table[&Op::info] = [translate](const TranslationContext& context) -> std::vector<Value> {
    const Op* op = op_of<Op>(context.call.outputs.at(0));
    if (op == nullptr)
      context.refuse("returns integers, so its options are unknown; make its result an input of the model");
    return {translate(context, *op)};
  };
}

}  // namespace tandem::exporting
