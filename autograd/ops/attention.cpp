#include "autograd/ops/attention.h"

#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/attention_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/lengths.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "core/kernels/attention.h"

namespace tandem {

namespace ops {

void check_mask(const char* op, const AttentionMask& mask, Index rows, Index keys) {
  check_lengths(op, mask.lengths, rows, keys);
  require(mask.window >= 0, op, "the window must be positive, or 0 for none; got {}", mask.window);
  require(mask.causal || (mask.window == 0 && !mask.documents.defined()), op,
          "windows and documents need a causal mask");
  const Tensor& documents = mask.documents;
  if (!documents.defined()) return;
  require(documents.device() == Device{} && documents.dtype() == DType::i64 &&
              documents.shape() == Shape{rows, keys},
          op, "documents must be i64 [{},{}] in host memory, got {} on {}", rows, keys, to_string(documents),
          to_string(documents.device()));
}

namespace {

void check_scores(const Tensor& x, const AttentionMask& mask) {
  const char* op = MaskedSoftmax::info.name;
  require(x.defined() && is_floating(x.dtype()), op, "expects floating scores, got {}", to_string(x));
  const bool by_row = mask.lengths.defined() || mask.documents.defined();
  const int needed = 1 + mask.causal + by_row;
  require(x.rank() >= needed, op, "scores need at least {} axes: {}{}keys; got {}", needed,
          by_row ? "rows, " : "", mask.causal ? "queries, " : "", to_string(x));
  check_mask(op, mask, x.size(0), x.size(-1));
}

// Mask of visible scores: bool with the rank of x, extent 1 on axes that it does not depend on. Absent: all
// visible.
Tensor seen_scores(const Tensor& x, const AttentionMask& mask) {
  if (!mask.causal && !mask.lengths.defined()) return {};
  const int rank = x.rank();
  const Index keys = x.size(-1), queries = mask.causal ? x.size(-2) : 1;
  const Index rows = mask.lengths.defined() || mask.documents.defined() ? x.size(0) : 1;
  std::vector<Index> extents(static_cast<std::size_t>(rank), 1);
  extents.front() = rows;
  if (mask.causal) extents[static_cast<std::size_t>(rank - 2)] = queries;
  extents.back() = keys;
  const Tensor seen = Tensor::empty(Shape(std::span<const Index>(extents)), {.dtype = DType::boolean});
  bool* to = seen.data<bool>();
  for (Index n = 0; n < rows; ++n) {
    for (Index t = 0; t < queries; ++t, to += keys) {
      const KeyRange range = seen_keys(mask, n, t, queries, keys);
      std::fill(to, to + keys, false);
      std::fill(to + range.first, to + range.last, true);
    }
  }
  return seen.to(x.device());
}

}  // namespace

Result MaskedSoftmax::forward(Context& context, Result& saved, const Operand& in) const {
  check_scores(in.x, mask);
  saved.y = context.empty(in.x.shape());
  context.backend.attention().masked_softmax(in.x, mask, saved.y);
  return {saved.y};
}

Operand MaskedSoftmax::backward(const Result& saved, const Result& dy, const Needs& needs) const {
  const Tensor& y = saved.y;
  if (!needs.create_graph()) {
    const bool overwrite = dy.y.dtype() == y.dtype() && needs.may_overwrite(dy.y);
    const Tensor dx = overwrite ? dy.y.detach() : Tensor::empty(y.shape(), y.options());
    backend_for(y.device()).attention().masked_softmax_backward(y, dy.y, mask, dx);
    return {dx};
  }
  const Tensor seen = seen_scores(y, mask), p = cast(y, wide_of(y.dtype()));
  Tensor g = cast(dy.y, p.dtype());
  if (seen.defined()) g = where(seen, g, Tensor::scalar(0.0, {.dtype = p.dtype(), .device = p.device()}));
  return {p * (g - sum(g * p, {-1}, /*keep_axes=*/true))};
}

namespace {

struct AdditiveExtents {
  Index queries, keys, rows, features, channels;
};

AdditiveExtents check(const AdditiveInputs& in, const AttentionMask& mask) {
  const char* op = AdditiveAttention::info.name;
  const auto check_sequence = [&](const char* what, const char* shape, const Tensor& t) {
    require(t.defined() && is_floating(t.dtype()) && t.rank() == 3, op, "{} must be floating {}, got {}",
            what, shape, to_string(t));
  };
  check_sequence("query", "[Tq,N,A]", in.query);
  check_sequence("key", "[Tk,N,A]", in.key);
  check_sequence("value", "[Tk,N,C]", in.value);
  const AdditiveExtents e{in.query.size(0), in.key.size(0), in.query.size(1), in.query.size(2),
                          in.value.size(2)};
  require(in.key.size(1) == e.rows && in.key.size(2) == e.features, op,
          "query {} expects keys [Tk,{},{}], got {}", to_string(in.query.shape()), e.rows, e.features,
          to_string(in.key.shape()));
  require(in.value.size(0) == e.keys && in.value.size(1) == e.rows, op,
          "key {} expects values [{},{},C], got {}", to_string(in.key.shape()), e.keys, e.rows,
          to_string(in.value.shape()));
  require(e.features > 0, op, "query {} has no features", to_string(in.query.shape()));
  require(in.v.defined(), op, "v is absent");
  const auto check_vector = [&](const char* what, const Tensor& t, Index extent) {
    require(!t.defined() || (is_floating(t.dtype()) && t.shape() == Shape{extent}), op,
            "{} must be floating [{}], got {}", what, extent, to_string(t));
  };
  check_vector("v", in.v, e.features);
  check_vector("g", in.g, 1);
  check_vector("b", in.b, e.features);
  require(mask.window == 0 && !mask.documents.defined(), op, "has no windows or documents");
  check_mask(op, mask, e.rows, e.keys);
  return e;
}

// Types may be mixed: query, key and value are computed in their widest type; v, g and b in its arithmetic
// type. `cast(tensor, dtype)` is called for tensors of another type.
template <class Cast>
AdditiveInputs unified(const AdditiveInputs& in, DType dtype, const Cast& cast) {
  AdditiveInputs result = in;
  const std::span<Tensor> tensors = tensors_of(result);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType wanted = AdditiveAttention::info.roles[i] == keep ? wide_of(dtype) : dtype;
    if (tensors[i].defined() && tensors[i].dtype() != wanted) tensors[i] = cast(tensors[i], wanted);
  }
  return result;
}

}  // namespace

// Scores, which are products with v, and the sums of the values.
ProductSizes AdditiveAttention::products(std::span<const Tensor> inputs, std::span<const Tensor>) {
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const Index queries = query.size(0), rows = query.size(1), keys = key.size(0);
  return {ProductSize{.m = queries * rows * keys, .n = 1, .k = query.size(2)},
          ProductSize{.m = queries, .n = value.size(2), .k = keys, .count = rows}};
}

AttentionResult AdditiveAttention::forward(Context& context, Saved& saved, const AdditiveInputs& in) const {
  const AdditiveExtents e = check(in, mask);
  const auto copy = [&](const Tensor& t, DType dtype) { return context.converted(t, dtype); };
  const AdditiveForward args{.mask = mask,
                             .in = unified(in, context.dtype, copy),
                             .context = context.empty({e.queries, e.rows, e.channels}),
                             .weights = context.empty({e.queries, e.rows, e.keys})};
  context.backend.attention().additive_attention(args);
  saved = {args.in, args.weights};
  return {args.context, args.weights};
}

AdditiveInputs AdditiveAttention::backward(const Saved& saved, const AttentionResult& dy,
                                           const Needs& needs) const {
  AdditiveInputs result;
  if (!dy.context.defined() && !dy.weights.defined()) return result;
  AdditiveBackward args{
      .mask = mask, .in = saved.in, .weights = saved.weights, .dcontext = dy.context, .dweights = dy.weights};
  const Tensor of_results[] = {dy.context, dy.weights};
  const bool wide = are_wider(of_results, saved.in.query.dtype());
  if (wide) {
    for (Tensor& tensor : tensors_of(args.in)) tensor = widened(tensor);
    for (Tensor* tensor : {&args.weights, &args.dcontext, &args.dweights}) *tensor = widened(*tensor);
  }
  const std::span<const Tensor> inputs = tensors_of(args.in);
  const std::span<Tensor> gradients = tensors_of(result);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!needs[i]) continue;
    const GradOutput* const sink = needs.sink(i);
    if (sink && !(wide && is_16bit(sink->tensor.dtype()))) {
      args.gradients[i] = {sink->tensor.viewed(inputs[i].shape()), sink->accumulate};
    } else {
      args.gradients[i].tensor = Tensor::empty(inputs[i].shape(), inputs[i].options());
    }
    gradients[i] = args.gradients[i].tensor;
  }
  backend_for(saved.in.query.device()).attention().additive_attention_backward(args);
  return result;
}

AttentionResult AdditiveAttention::composed(const AdditiveAttention& op, const AdditiveInputs& given) {
  const AdditiveExtents e = check(given, op.mask);
  const DType stored = promote(promote(given.query.dtype(), given.key.dtype()), given.value.dtype());
  const AdditiveInputs in =
      unified(given, stored, [](const Tensor& t, DType dtype) { return cast(t, dtype); });
  const DType wide = wide_of(stored);
  Tensor query = reshape(cast(in.query, wide), {e.queries, 1, e.rows, e.features});
  if (in.b.defined()) query = query + in.b;
  const Tensor key = reshape(cast(in.key, wide), {1, e.keys, e.rows, e.features});
  const Tensor u = in.g.defined() ? in.v * (in.g / norm(in.v)) : in.v;
  const Tensor scores = permute(sum(tanh(query + key) * u, {-1}), {2, 0, 1});  // [N,Tq,Tk]
  const Tensor weights = cast(masked_softmax(scores, op.mask), stored);
  const Tensor context = matmul(weights, permute(in.value, {1, 0, 2}));  // [N,Tq,C]
  return {permute(context, {1, 0, 2}), permute(weights, {1, 0, 2})};
}

}  // namespace ops

Tensor masked_softmax(const Tensor& x, const AttentionMask& mask) {
  return apply(ops::MaskedSoftmax{mask}, {x}).y;
}

AttentionResult additive_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AdditiveWeights& weights, const AttentionMask& mask) {
  return apply(ops::AdditiveAttention{mask}, {query, key, value, weights.v, weights.g, weights.b});
}

OpInfos attention_ops() { return infos_of<ops::Attention, ops::MaskedSoftmax, ops::AdditiveAttention>(); }

}  // namespace tandem
