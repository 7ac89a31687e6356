// Scaled dot-product attention: one op for heads that are an axis, columns, or columns of one projection.
#include <cmath>

#include "autograd/apply.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/attention_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "core/kernels/attention.h"
#include "core/kernels/attention_formulas.h"

namespace tandem {

namespace ops {

namespace {

enum class Part : std::uint8_t { query, key, value, result };

// Heads of a part in `tensor`, which is a projection of queries, keys and values if `packed`.
HeadRows heads_of(const Attention& op, Part part, const Tensor& tensor, bool packed) {
  const AttentionSizes& size = op.size;
  const bool of_queries = part == Part::query || part == Part::result;
  const Index heads = of_queries ? size.heads : size.key_heads;
  const Index width = part == Part::query || part == Part::key ? size.width : size.value_width;
  if (op.layout == Attention::Layout::axis) {
    const Index tokens = tensor.size(-2);  // of a cache, more than are used
    return {.tensor = tensor, .text = heads * tokens * width, .head = tokens * width, .token = width};
  }
  const Index columns = tensor.size(2);
  Index offset = 0;
  if (packed && part == Part::key) offset = size.heads * size.width;
  if (packed && part == Part::value) offset = (size.heads + size.key_heads) * size.width;
  return {
      .tensor = tensor, .offset = offset, .text = tensor.size(1) * columns, .head = width, .token = columns};
}

template <class Call>
void set_call(const Attention& op, const Attention::Saved& saved, Call& call) {
  const bool packed = !saved.key.defined();
  call.size = op.size;
  call.mask = op.mask;
  call.scale = op.scale;
  call.alibi = op.alibi;
  call.dropout = op.dropout;
  call.random = op.random;
  call.query = heads_of(op, Part::query, saved.query, packed);
  call.key = heads_of(op, Part::key, packed ? saved.query : saved.key, packed);
  call.value = heads_of(op, Part::value, packed ? saved.query : saved.value, packed);
  call.result = heads_of(op, Part::result, saved.result, false);
  call.lse = saved.lse;
}

// [N,T,H·D] → [N,H,T,D].
Tensor heads_apart(const Tensor& x, Index heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

// Each head of keys for the heads of queries that read it: [N,G,T,D] → [N,H,T,D].
Tensor for_queries(const Tensor& x, const AttentionSizes& size) {
  if (size.key_heads == size.heads) return x;
  const Shape repeated{size.texts, size.key_heads, size.heads / size.key_heads, x.size(2), x.size(3)};
  return reshape(broadcast_to(reshape(x, repeated.with(2, 1)), repeated),
                 {size.texts, size.heads, x.size(2), x.size(3)});
}

// Scores' terms by distance: [H,Tq,Tk].
Tensor distances(const AttentionSizes& size, const Tensor& like) {
  const Tensor terms = Tensor::empty({size.heads, size.queries, size.keys});
  float* to = terms.data<float>();
  for (Index h = 0; h < size.heads; ++h) {
    const float slope = attention::alibi_slope(static_cast<int>(h), static_cast<int>(size.heads));
    for (Index t = 0; t < size.queries; ++t)
      for (Index j = 0; j < size.keys; ++j)
        *to++ = -slope * static_cast<float>(t + size.keys - size.queries - j);
  }
  return cast(terms.to(like.device()), wide_of(like.dtype()));
}

}  // namespace

ProductSizes Attention::products(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2], &result = outputs[0];
  // Heads count as depth: the sums over H heads of D features are those of one head of H·D.
  const Index texts = result.size(0), queries = result.size(-2);
  const auto depth = [&](const Tensor& t) { return t.numel() / std::max<Index>(1, texts * t.size(-2)); };
  const Index keys = key.defined() ? key.size(-2) : queries;
  const Index width = key.defined() ? depth(query) : depth(result);
  static_cast<void>(value);
  return {ProductSize{.m = queries, .n = keys, .k = width, .count = texts},
          ProductSize{.m = queries, .n = depth(result), .k = keys, .count = texts}};
}

Result Attention::forward(Context& context, Saved& saved, const AttentionInputs& in) const {
  const auto stored = [&](const Tensor& t) {
    return !t.defined() || t.dtype() == context.dtype ? t : context.converted(t, context.dtype);
  };
  saved = {stored(in.query), stored(in.key), stored(in.value), {}, {}};
  Shape shape = in.query.shape();
  saved.result = context.empty(layout == Layout::axis ? shape.with(shape.rank() - 1, size.value_width)
                                                      : shape.with(2, size.heads * size.value_width));
  saved.lse = context.empty({size.texts, size.heads, size.queries}, DType::f32);
  AttentionForward call;
  set_call(*this, saved, call);
  context.backend.attention().attention(call);
  return {saved.result};
}

AttentionInputs Attention::backward(const Saved& saved, const Result& dy, const Needs& needs) const {
  static_cast<void>(needs);  // the gradients come out of one pass
  const Tensor of_result[] = {dy.y};
  const DType dtype = are_wider(of_result, saved.result.dtype()) ? DType::f32 : saved.query.dtype();
  // Keys of a cache beyond the `tokens` in use have no gradient.
  const auto gradient_of = [&](const Tensor& t, Index tokens) {
    if (!t.defined()) return Tensor();
    const TensorOptions options{.dtype = dtype, .device = t.device()};
    return t.size(-2) == tokens ? Tensor::empty(t.shape(), options) : Tensor::zeros(t.shape(), options);
  };
  const bool packed = !saved.key.defined();
  const AttentionInputs result{gradient_of(saved.query, size.queries), gradient_of(saved.key, size.keys),
                               gradient_of(saved.value, size.keys)};
  AttentionBackward call;
  set_call(*this, saved, call);
  call.dresult = heads_of(*this, Part::result, dy.y, false);
  call.dquery = heads_of(*this, Part::query, result.query, packed);
  call.dkey = heads_of(*this, Part::key, packed ? result.query : result.key, packed);
  call.dvalue = heads_of(*this, Part::value, packed ? result.query : result.value, packed);
  backend_for(saved.query.device()).attention().attention_backward(call);
  return result;
}

Result Attention::composed(const Attention& op, const AttentionInputs& in) {
  const AttentionSizes& size = op.size;
  Tensor query = in.query, key = in.key, value = in.value;
  if (!key.defined()) {
    const Index of_queries = size.heads * size.width, of_keys = size.key_heads * size.width;
    const TensorList parts = split(query, {of_queries, of_keys, of_keys}, 2);
    query = parts[0], key = parts[1], value = parts[2];
  }
  const Shape result = query.shape();
  if (op.layout == Layout::columns) {
    query = heads_apart(query, size.heads);
    key = heads_apart(key, size.key_heads);
    value = heads_apart(value, size.key_heads);
  }
  if (key.size(-2) != size.keys) {
    key = slice(key, key.rank() - 2, 0, size.keys);
    value = slice(value, value.rank() - 2, 0, size.keys);
  }
  if (op.layout == Layout::columns || size.heads != size.key_heads) {
    key = for_queries(key, size);
    value = for_queries(value, size);
  }
  // Scaling the query instead of the scores takes fewer operations, and keeps 16-bit scores small.
  Tensor scores = matmul(query * op.scale, key, false, true);
  if (op.alibi) scores = cast(scores + distances(size, scores), scores.dtype());
  Tensor weights = masked_softmax(scores, op.mask);
  if (op.dropout > 0.0) weights = tandem::dropout(weights, op.dropout, op.random);
  const Tensor y = matmul(weights, value);
  if (op.layout == Layout::axis) return {y};
  return {reshape(permute(y, {0, 2, 1, 3}), result.with(2, size.heads * size.value_width))};
}

}  // namespace ops

namespace {

// Runs the op with its sizes, apart from the scale.
Tensor attend(const char* name, ops::Attention op, const ops::AttentionInputs& in,
              const AttentionOptions& options) {
  op.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(op.size.width)));
  require(std::isfinite(op.scale), name, "the scale must be finite, got {}", op.scale);
  require(options.dropout >= 0.0 && options.dropout < 1.0, name, "dropout must lie in [0,1), got {}",
          options.dropout);
  op.mask = {options.lengths, options.causal, options.window, options.documents};
  ops::check_mask(name, op.mask, op.size.texts, op.size.keys);
  op.alibi = options.alibi;
  if (options.training && options.dropout > 0.0) {
    op.dropout = options.dropout;
    op.random = next_random_key(RandomPurpose::dropout);
  }
  const bool f64 = std::ranges::any_of(
      tensors_of(in), [](const Tensor& t) { return t.defined() && t.dtype() == DType::f64; });
  if (f64 || options.composed) return ops::Attention::composed(op, in).y;
  return apply(op, in).y;
}

// Keys in use of `all`.
Index used_keys(const char* name, const AttentionOptions& options, Index all) {
  require(options.keys >= 0 && options.keys <= all, name, "{} keys are more than the {} of the tensor",
          options.keys, all);
  return options.keys > 0 ? options.keys : all;
}

constexpr const char* kMultiHead = "multi_head_attention";

Heads checked(Heads heads) {
  if (heads.keys == 0) heads.keys = heads.queries;
  require(heads.queries > 0 && heads.keys > 0 && heads.queries % heads.keys == 0, kMultiHead,
          "{} heads of keys do not divide {} heads of queries", heads.keys, heads.queries);
  return heads;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  constexpr const char* kOp = "scaled_dot_product_attention";
  for (const Tensor* t : {&query, &key, &value})
    require(t->defined() && is_floating(t->dtype()) && t->rank() > 2, kOp,
            "query, key and value must be floating [N,…,T,D], got {}", to_string(*t));
  // With four axes, keys may have fewer heads.
  const bool grouped =
      query.rank() == 4 && key.rank() == 4 && key.size(1) > 0 && query.size(1) % key.size(1) == 0;
  const Shape expected = query.shape().with(query.rank() - 2, key.size(-2));
  require(key.shape() == (grouped ? expected.with(1, key.size(1)) : expected), kOp,
          "query and key may differ only in T, got {} and {}", to_string(query.shape()),
          to_string(key.shape()));
  require(value.shape() == key.shape().with(key.rank() - 1, value.size(-1)), kOp,
          "key and value may differ only in D, got {} and {}", to_string(key.shape()),
          to_string(value.shape()));
  ops::Attention op;
  op.layout = ops::Attention::Layout::axis;
  op.size = {.texts = query.size(0),
             .heads = query.shape().product(1, query.rank() - 2),
             .key_heads = key.shape().product(1, key.rank() - 2),
             .queries = query.size(-2),
             .keys = used_keys(kOp, options, key.size(-2)),
             .width = query.size(-1),
             .value_width = value.size(-1)};
  return attend(kOp, op, {query, key, value}, options);
}

Tensor multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Heads& given,
                            const AttentionOptions& options) {
  const Heads heads = checked(given);
  const auto check = [](const char* what, const Tensor& t, Index count) {
    require(t.defined() && is_floating(t.dtype()) && t.rank() == 3 && t.size(2) % count == 0, kMultiHead,
            "{} must be floating [N,T,{}·D], got {}", what, count, to_string(t));
  };
  check("query", query, heads.queries);
  check("key", key, heads.keys);
  check("value", value, heads.keys);
  const Index width = query.size(2) / heads.queries;
  require(key.size(0) == query.size(0) && key.size(2) == heads.keys * width, kMultiHead,
          "query {} with {} heads expects keys [{},T,{}], got {}", to_string(query.shape()), heads.queries,
          query.size(0), heads.keys * width, to_string(key.shape()));
  require(value.shape() == key.shape().with(2, value.size(2)), kMultiHead,
          "key and value may differ only in D, got {} and {}", to_string(key.shape()),
          to_string(value.shape()));
  ops::Attention op;
  op.size = {.texts = query.size(0),
             .heads = heads.queries,
             .key_heads = heads.keys,
             .queries = query.size(1),
             .keys = used_keys(kMultiHead, options, key.size(1)),
             .width = width,
             .value_width = value.size(2) / heads.keys};
  return attend(kMultiHead, op, {query, key, value}, options);
}

Tensor multi_head_attention(const Tensor& projection, const Heads& given, const AttentionOptions& options) {
  const Heads heads = checked(given);
  const Index parts = heads.queries + 2 * heads.keys;
  require(projection.defined() && is_floating(projection.dtype()) && projection.rank() == 3 &&
              projection.size(2) % parts == 0,
          kMultiHead, "the projection must be floating [N,T,{}·D], got {}", parts, to_string(projection));
  require(options.keys == 0, kMultiHead, "a projection has no cache of keys");
  const Index width = projection.size(2) / parts;
  ops::Attention op;
  op.size = {.texts = projection.size(0),
             .heads = heads.queries,
             .key_heads = heads.keys,
             .queries = projection.size(1),
             .keys = projection.size(1),
             .width = width,
             .value_width = width};
  return attend(kMultiHead, op, {projection, {}, {}}, options);
}

}  // namespace tandem
