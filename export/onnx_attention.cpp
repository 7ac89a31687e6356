// Attention: composed of products and a softmax, or from opset 23 ONNX's Attention. The graph computes masks
// from positions, so the number of steps is dynamic; layers with the same mask share it.
//
// ONNX's causal masks align the first query with the first key, Tandem's the last ones. They agree only for
// as many queries as keys; other masks are given as tensors.
#include <array>
#include <limits>

#include "autograd/ops/attention_ops.h"
#include "core/kernels/attention_formulas.h"
#include "export/onnx_translation.h"

namespace tandem::exporting {

namespace {

std::vector<Index> single(Index value) { return {value}; }

// Positions of keys from `first` on, i64.
std::string positions_from(Graph& graph, const std::string& first, Index keys) {
  const auto scalar = [&](const std::string& one) { return graph.add("Squeeze", {one}); };
  return graph.add("Range", {scalar(first), scalar(graph.extent(keys)), scalar(graph.constant(single(1)))});
}

// Positions of keys, i64 [Tk], and of queries, [Tq,1]: the last query stands at the last key.
struct Positions {
  std::string keys, queries;
};

std::string positions_of_keys(Graph& graph, Index keys) {
  return positions_from(graph, graph.constant(single(0)), keys);
}

Positions positions_of(Graph& graph, Index queries, Index keys) {
  const std::string all = positions_of_keys(graph, keys);
  const std::string last =
      queries == keys
          ? all
          : positions_from(graph, graph.add("Sub", {graph.extent(keys), graph.extent(queries)}), keys);
  return {all, graph.add("Unsqueeze", {last, graph.constant(single(1))})};
}

struct Scores {
  Index queries, keys;
  int rank;  // of the scores [N,…,Tq,Tk]
};

// Whether a query sees a key, bool [Tq,Tk], or of that rank with texts of several lengths, with an extent of
// 1 on axes without influence; "" if it sees all.
std::string seen_of(const TranslationContext& context, const AttentionMask& mask, const Scores& scores) {
  if (mask.documents.defined())
    context.refuse(
        "documents of packed texts have no translation; export a model that reads one text per row");
  Graph& graph = context.graph;
  const std::string lengths = mask.lengths.defined() ? context.weight(mask.lengths).name : "";
  const Graph::Sharing sharing(graph);
  std::string seen;
  const auto restrict_to = [&](const std::string& part) {
    seen = seen.empty() ? part : graph.add("And", {seen, part});
  };
  if (mask.causal) {
    const auto [keys, queries] = positions_of(graph, scores.queries, scores.keys);
    restrict_to(graph.add("LessOrEqual", {keys, queries}));
    if (mask.window > 0)
      restrict_to(
          graph.add("Greater", {keys, graph.add("Sub", {queries, graph.constant(single(mask.window))})}));
  }
  if (!lengths.empty()) {
    std::vector<Index> axes;
    for (int axis = 1; axis < scores.rank; ++axis) axes.push_back(axis);
    restrict_to(graph.add("Less", {positions_of_keys(graph, scores.keys),
                                   graph.add("Unsqueeze", {lengths, graph.constant(axes)})}));
  }
  return seen;
}

// Softmax over keys that are seen; without any, 0.
std::string masked_weights(const TranslationContext& context, const std::string& scores,
                           const AttentionMask& mask, const Scores& sizes) {
  Graph& graph = context.graph;
  const auto softmax = [&](const std::string& x) { return graph.add("Softmax", {x}, {{"axis", Index{-1}}}); };
  const std::string seen = seen_of(context, mask, sizes);
  if (seen.empty()) return softmax(scores);
  std::string hidden, none;
  {
    const Graph::Sharing sharing(graph);
    hidden = graph.constant(-std::numeric_limits<double>::infinity());
    none = graph.constant(0.0);
  }
  const std::string weights = softmax(graph.add("Where", {seen, scores, hidden}));
  return mask.lengths.defined() ? graph.add("Where", {seen, weights, none}) : weights;
}

Value masked_softmax(const TranslationContext& context, const ops::MaskedSoftmax& op) {
  const Value x = context.graph.as_here(context.inputs[0]);
  const Index queries = op.mask.causal ? x.shape.at(-2) : 1;
  return context.result(masked_weights(context, x.name, op.mask, {queries, x.shape.at(-1), x.rank()}));
}

// Terms of the scores: -slope(head)·distance, [heads…,Tq,Tk], where heads are axes of extents `heads`.
std::string alibi(Graph& graph, const AttentionSizes& size, const std::vector<Index>& heads) {
  const Graph::Sharing sharing(graph);
  std::vector<double> slopes;
  for (Index h = 0; h < size.heads; ++h)
    slopes.push_back(attention::alibi_slope(static_cast<int>(h), static_cast<int>(size.heads)));
  std::vector<Index> extents = heads;
  extents.insert(extents.end(), {1, 1});
  const auto [keys, queries] = positions_of(graph, size.queries, size.keys);
  return graph.add("Mul", {graph.add("Reshape", {graph.constant(slopes), graph.constant(extents)}),
                           graph.as_type(graph.add("Sub", {keys, queries}), OnnxType::f32)});
}

// Query, key and value, apart.
std::array<Value, 3> parts_of(const TranslationContext& context, const ops::Attention& op) {
  const auto& in = context.inputs;
  if (in[1].defined()) return {in[0], in[1], in[2]};
  const AttentionSizes& size = op.size;
  const Index of_queries = size.heads * size.width, of_keys = size.key_heads * size.width;
  Graph& graph = context.graph;
  const Value x = graph.as_here(in[0]);
  const std::vector<std::string> names =
      graph.add("Split", {x.name, graph.constant(std::vector<Index>{of_queries, of_keys, of_keys})}, 3,
                {{"axis", Index{2}}});
  const auto part = [&](int i, Index columns) {
    return Value{.name = names[static_cast<std::size_t>(i)],
                 .shape = x.shape.with(2, columns),
                 .order = same_order(3)};
  };
  return {part(0, of_queries), part(1, of_keys), part(2, of_keys)};
}

// Operator Attention of opset 23.
Value attention_operator(const TranslationContext& context, const ops::Attention& op,
                         const std::array<Value, 3>& parts) {
  Graph& graph = context.graph;
  const AttentionSizes& size = op.size;
  std::vector<std::string> given;
  for (const Value& part : parts) given.push_back(graph.as_here(part).name);
  Attributes attributes{{"scale", op.scale}};
  if (op.layout == ops::Attention::Layout::columns) {
    attributes.emplace_back("q_num_heads", size.heads);
    attributes.emplace_back("kv_num_heads", size.key_heads);
  }
  const bool plain = size.queries == size.keys && op.mask.window == 0 && !op.mask.lengths.defined() &&
                     !op.mask.documents.defined() && !op.alibi;
  if (op.mask.causal && plain) {
    attributes.emplace_back("is_causal", Index{1});
    return context.result(graph.add("Attention", given, attributes));
  }
  std::string mask = seen_of(context, op.mask, {size.queries, size.keys, 4});
  {
    const Graph::Sharing sharing(graph);
    if (op.mask.lengths.defined() && !op.mask.causal)  // onnxruntime wants an extent of Tq
      mask = graph.add("Expand", {mask, graph.add("Concat",
                                                  {graph.constant(std::vector<Index>{1, 1}),
                                                   graph.extent(size.queries), graph.constant(single(1))},
                                                  {{"axis", Index{0}}})});
    if (op.alibi) {
      const std::string terms = alibi(graph, size, {1, size.heads});
      mask =
          mask.empty()
              ? terms
              : graph.add("Where", {mask, terms, graph.constant(-std::numeric_limits<double>::infinity())});
    }
  }
  given.push_back(mask);
  return context.result(graph.add("Attention", given, attributes));
}

// Whether the operator says what the op does: for heads that are one axis or columns, and queries that see a
// key.
bool has_operator(const Graph& graph, const ops::Attention& op, int rank) {
  const bool some_see_nothing = op.mask.lengths.defined() && op.mask.window > 0;
  return graph.opset() >= 23 && !some_see_nothing &&
         (op.layout == ops::Attention::Layout::columns || rank == 4);
}

// With fewer heads of keys than of queries, the heads of queries are two axes, [G,H/G].
Value attention(const TranslationContext& context, const ops::Attention& op) {
  Graph& graph = context.graph;
  const AttentionSizes& size = op.size;
  if (op.dropout > 0.0) context.refuse("applies dropout; export in evaluation mode");
  const std::array<Value, 3> parts = parts_of(context, op);
  if (parts[1].shape.at(-2) != size.keys)
    context.refuse("reads the first keys of a larger cache; export a model that takes its past as an input");
  if (has_operator(graph, op, parts[0].rank())) return attention_operator(context, op, parts);

  const bool columns = op.layout == ops::Attention::Layout::columns, grouped = size.heads != size.key_heads;
  const std::vector<Index> heads = grouped ? std::vector<Index>{size.key_heads, size.heads / size.key_heads}
                                           : std::vector<Index>{size.heads};
  const std::string group_axis = grouped ? graph.constant(single(2)) : "";
  // [N,T,H·D] → [N,H,T,D], or [N,G,H/G,T,D].
  const auto apart = [&](const Value& x, const std::vector<Index>& by, bool turned) {
    std::vector<Index> extents{0, 0}, order{0};
    extents.insert(extents.end(), by.begin(), by.end());
    extents.push_back(x.shape[2] / (by.size() == 2 ? by[0] * by[1] : by[0]));
    const auto last = static_cast<Index>(extents.size()) - 1;
    for (Index axis = 2; axis < last; ++axis) order.push_back(axis);
    order.insert(order.end(), {turned ? last : 1, turned ? 1 : last});
    return graph.add("Transpose", {graph.add("Reshape", {x.name, graph.constant(extents)})},
                     {{"perm", order}});
  };
  const auto of_keys = [&](const Value& x, bool turned) {
    std::vector<int> order = same_order(x.rank());
    if (turned && !columns) std::swap(order.back(), order[order.size() - 2]);
    const std::string all =
        columns ? apart(graph.as_here(x), {size.key_heads}, turned) : graph.arranged(x, order).name;
    return grouped ? graph.add("Unsqueeze", {all, group_axis}) : all;
  };
  const Value query = graph.as_here(parts[0]);
  std::string q = query.name;
  if (columns)
    q = apart(query, heads, false);
  else if (grouped)
    q = graph.add("Reshape", {q, graph.constant(std::vector<Index>{0, heads[0], heads[1], -1, size.width})});
  q = graph.add("Mul", {q, graph.constant(op.scale)});
  std::string scores = graph.add("MatMul", {q, of_keys(parts[1], true)});
  if (op.alibi) scores = graph.add("Add", {scores, alibi(graph, size, heads)});
  const int rank = grouped ? 5 : columns ? 4 : query.rank();
  const std::string weights = masked_weights(context, scores, op.mask, {size.queries, size.keys, rank});
  std::string y = graph.add("MatMul", {weights, of_keys(parts[2], false)});
  if (columns) {
    y = graph.add("Transpose", {y},
                  {{"perm", grouped ? std::vector<Index>{0, 3, 1, 2, 4} : std::vector<Index>{0, 2, 1, 3}}});
    y = graph.add("Reshape", {y, graph.constant(std::vector<Index>{0, 0, size.heads * size.value_width})});
  } else if (grouped) {
    y = graph.add("Reshape", {y, graph.constant(std::vector<Index>{0, size.heads, -1, size.value_width})});
  }
  return context.result(y);
}

}  // namespace

void add_attention_translations(TranslationTable& table) {
  add_translation(table, masked_softmax);
  add_translation(table, attention);
}

}  // namespace tandem::exporting
