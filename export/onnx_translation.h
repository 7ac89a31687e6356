// What each op is in ONNX, opset 17.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/apply.h"
#include "export/onnx_graph.h"
#include "export/trace.h"

namespace tandem::exporting {

// Gives the tensors that an op takes from its options, such as running statistics, beside its inputs.
using WeightLookup = std::function<Value(const Tensor&)>;

struct TranslationContext {
  Graph& graph;
  const Call& call;
  const std::vector<Value>& inputs;  // one for each of call.inputs; absent ones have no name
  const WeightLookup& weight;

  // Throws UserError that names the layer, the op and `why`.
  [[noreturn]] void refuse(const std::string& why) const;
  // The result of the op, which has the shape that the op gave here.
  Value result(std::string name, std::vector<int> order) const;
  Value result(std::string name) const;  // with its axes as here
};

// Adds the nodes for one call and returns its only output.
using Translation = std::function<Value(const TranslationContext&)>;

// By name of the op.
const std::map<std::string, Translation>& translations();

// The families of the table.
using TranslationTable = std::map<std::string, Translation>;
void add_layer_translations(TranslationTable& table);        // convolutions, products, norms, pools
void add_elementwise_translations(TranslationTable& table);  // activations and arithmetic
void add_shape_translations(TranslationTable& table);        // what moves elements, softmax, reductions

// Files a function Value(const TranslationContext&, const Op&) for an op.
template <class Op>
void add_translation(TranslationTable& table, Value (*translate)(const TranslationContext&, const Op&)) {
  table[Op::info.name] = [translate](const TranslationContext& context) {
    const Op* op = op_of<Op>(context.call.outputs.at(0));
    ensure(op != nullptr, "onnx", "the tape has lost the {} of layer \"{}\"", Op::info.name,
           context.call.layer);
    return translate(context, *op);
  };
}

}  // namespace tandem::exporting
