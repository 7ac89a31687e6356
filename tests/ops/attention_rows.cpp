// Rows of autograd/ops/attention.h: every mask against loops in f64, and vectors of PyTorch's.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Lengths = std::vector<std::int64_t>;

struct Mask {
  Lengths lengths = {};
  bool causal = false;

  AttentionMask made() const {
    AttentionMask mask{.causal = causal};
    if (!lengths.empty()) mask.lengths = Tensor::from(lengths, Shape{static_cast<Index>(lengths.size())});
    return mask;
  }
  // Counted from the ends: a key is seen when at least as much lies behind it as behind the query.
  bool sees(Index n, Index t, Index s, Index queries, Index keys) const {
    if (!lengths.empty() && s >= lengths[static_cast<std::size_t>(n)]) return false;
    return !causal || keys - 1 - s >= queries - 1 - t;
  }
};

// Weights of the seen ones among scores of one query; 0 for the others.
std::vector<double> weights_of(const std::vector<double>& scores, const std::vector<bool>& seen) {
  double sum = 0.0;
  for (std::size_t s = 0; s < scores.size(); ++s) sum += seen[s] ? std::exp(scores[s]) : 0.0;
  std::vector<double> weights(scores.size());
  for (std::size_t s = 0; s < scores.size(); ++s) weights[s] = seen[s] ? std::exp(scores[s]) / sum : 0.0;
  return weights;
}

Tensor flat(const Tensor& t) { return reshape(t, {-1}); }

// ---- masked_softmax

Oracle softmax_oracle(const Mask& mask) {
  return [mask](const Arrays& x) {
    const Shape& shape = x[0].shape;
    const Index keys = shape.at(-1), queries = shape.rank() > 1 ? shape.at(-2) : 1;
    Array y(shape);
    for_each_index(shape.with(shape.rank() - 1, 1), [&](const Indices& row) {
      if (keys == 0) return;
      std::vector<double> scores;
      std::vector<bool> seen;
      Indices at = row;
      const Index t = row.size() > 1 ? row[row.size() - 2] : 0;
      for (Index s = 0; s < keys; ++s) {
        at.back() = s;
        scores.push_back(x[0].at(at));
        seen.push_back(mask.sees(row.front(), t, s, queries, keys));
      }
      const std::vector<double> weights = weights_of(scores, seen);
      for (Index s = 0; s < keys; ++s) {
        at.back() = s;
        y.at(at) = weights[static_cast<std::size_t>(s)];
      }
    });
    return y;
  };
}

Rows softmax_forms() {
  struct Form {
    const char* name;
    Mask mask;
    std::vector<Shapes> cases;
  };
  const std::vector<Form> forms = {
      {"of everything", {}, {{{2, 3, 4}}, {{5}}, {{1, 1}}, {{0, 3}}, {{3, 0}}, {{67, 301}}}},
      {"lengths",
       {{4, 0, 1, 3}, false},
       {{{4, 2, 4}}, {{4, 4}}, {{4, 3, 2, 5}}, {{4, 2, 37}}, {{4, 16, 700}}, {{4, 0, 4}}}},
      {"causal",
       {{}, true},
       {{{3, 3}}, {{1, 1}}, {{2, 3, 5}}, {{2, 5, 3}}, {{2, 2, 17, 33}}, {{2, 0, 3}}, {{3, 90, 71}}}},
      {"causal, lengths",
       {{3, 0, 2}, true},
       {{{3, 3, 3}}, {{3, 2, 4, 3}}, {{3, 5, 3}}, {{3, 1, 4}}, {{3, 2, 19, 40}}}}};
  Rows rows;
  for (const Form& form : forms) {
    rows.push_back(
        {.op = "masked_softmax",
         .variant = form.name,
         .run = [mask = form.mask](const TensorList& x) { return masked_softmax(x[0], mask.made()); },
         .oracle = softmax_oracle(form.mask),
         .cases = form.cases,
         .draws = {{.low = -3, .high = 3}}});
  }
  rows[0].refusals = {
      {"[masked_softmax] expects floating scores, got i64[2]", CALL(masked_softmax(zeros({2}, DType::i64)))},
      {"[masked_softmax] scores need at least 2 axes: queries, keys; got f32[3]",
       CALL(masked_softmax(zeros({3}), {.causal = true}))},
      {"[masked_softmax] scores need at least 3 axes: rows, queries, keys; got f32[1,3]",
       CALL(masked_softmax(zeros({1, 3}), Mask{{2}, true}.made()))},
      {"[masked_softmax] lengths must be i64 [2] in host memory, got i64[3]",
       CALL(masked_softmax(zeros({2, 3}), Mask{{1, 2, 3}}.made()))},
      {"[masked_softmax] lengths must be i64 [2] in host memory, got f32[2]",
       CALL(masked_softmax(zeros({2, 3}), {.lengths = Tensor::zeros({2})}))},
      {"[masked_softmax] length 4 of row 1 lies outside [0,3]",
       CALL(masked_softmax(zeros({2, 3}), Mask{{3, 4}}.made()))},
      {"[masked_softmax] length -1 of row 0 lies outside [0,3]",
       CALL(masked_softmax(zeros({2, 3}), Mask{{-1, 3}}.made()))}};
  return rows;
}

// ---- scaled dot products

// x: query, key and value, [N,T,D] or [N,H,T,D].
Array dot_products(const Arrays& x, const Mask& mask, std::optional<double> given) {
  const Shape& shape = x[0].shape;
  const Index queries = shape.at(-2), keys = x[1].shape.at(-2), d = shape.at(-1), e = x[2].shape.at(-1);
  const double scale = given.value_or(1.0 / std::sqrt(static_cast<double>(d)));
  Array y(shape.with(shape.rank() - 1, e));
  for_each_index(shape.with(shape.rank() - 1, 1), [&](const Indices& query) {
    // Element (t, c) of a sequence of this query's head.
    const auto at = [&](Index t, Index c) {
      Indices index = query;
      index[index.size() - 2] = t;
      index.back() = c;
      return index;
    };
    const Index n = query.front(), t = query[query.size() - 2];
    std::vector<double> scores;
    std::vector<bool> seen;
    for (Index s = 0; s < keys; ++s) {
      double score = 0.0;
      for (Index k = 0; k < d; ++k) score += x[0].at(at(t, k)) * x[1].at(at(s, k));
      scores.push_back(score * scale);
      seen.push_back(mask.sees(n, t, s, queries, keys));
    }
    const std::vector<double> weights = weights_of(scores, seen);
    for (Index s = 0; s < keys; ++s) {
      for (Index c = 0; c < e; ++c)
        y.at(at(t, c)) += weights[static_cast<std::size_t>(s)] * x[2].at(at(s, c));
    }
  });
  return y;
}

Tensor attend(const Shape& query, const Shape& key, const Shape& value,
              const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(zeros(query), zeros(key), zeros(value), options);
}

Rows dot_product_rows() {
  struct Form {
    const char* name;
    Mask mask;
    std::optional<double> scale;
    std::vector<Shapes> cases;
  };
  // Queries of four features first: their scale, 1/2, rounds nothing.
  const std::vector<Form> forms = {
      {"in dot products",
       {},
       {},
       {{{2, 2, 4}, {2, 3, 4}, {2, 3, 3}},
        {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {{2, 0, 4}, {2, 3, 4}, {2, 3, 3}},
        {{3, 9, 18}, {3, 17, 18}, {3, 17, 33}}}},
      {"in dot products of heads, causal",
       {{}, true},
       {},
       {{{2, 2, 3, 4}, {2, 2, 3, 4}, {2, 2, 3, 2}},
        {{1, 2, 5, 3}, {1, 2, 3, 3}, {1, 2, 3, 1}},
        {{1, 2, 2, 1}, {1, 2, 4, 1}, {1, 2, 4, 1}}}},
      {"in dot products of heads, lengths",
       {{3, 0, 1}, false},
       0.25,
       {{{3, 3, 2, 1}, {3, 3, 3, 1}, {3, 3, 3, 2}}, {{3, 3, 7, 7}, {3, 3, 11, 7}, {3, 3, 11, 16}}}}};
  Rows rows;
  for (const Form& form : forms) {
    rows.push_back(
        {.op = "attention",
         .variant = form.name,
         .run =
             [form](const TensorList& x) {
               return scaled_dot_product_attention(
                   x[0], x[1], x[2],
                   {.scale = form.scale, .lengths = form.mask.made().lengths, .causal = form.mask.causal});
             },
         .oracle = [form](const Arrays& x) { return dot_products(x, form.mask, form.scale); },
         .cases = form.cases,
         .draws = {{.low = -1.5, .high = 1.5}},
         .normalised = true,
         .slack = 2.0});  // scores and weights are rounded, too
  }
  rows[0].refusals = {
      {"[scaled_dot_product_attention] query, key and value must be floating [N,…,T,D], got f32[2,3]",
       CALL(attend({2, 3}, {1, 2, 3}, {1, 2, 3}))},
      {"[scaled_dot_product_attention] query and key may differ only in T, got [1,2,3] and [2,2,3]",
       CALL(attend({1, 2, 3}, {2, 2, 3}, {1, 2, 4}))},
      {"[scaled_dot_product_attention] key and value may differ only in D, got [1,2,3] and [1,3,4]",
       CALL(attend({1, 2, 3}, {1, 2, 3}, {1, 3, 4}))},
      {"[scaled_dot_product_attention] the scale must be finite, got inf",
       CALL(attend({1, 2, 0}, {1, 2, 0}, {1, 2, 4}))},
      {"[scaled_dot_product_attention] length 3 of row 0 lies outside [0,2]",
       CALL(attend({1, 2, 3}, {1, 2, 3}, {1, 2, 4}, {.lengths = Mask{{3}}.made().lengths}))}};
  return rows;
}

// ---- additive attention

struct Additive {
  const char* name;
  bool g = true, b = true;
  Mask mask = {};
  bool weights = true;  // of the results that are looked at
};

struct Sizes {
  Index queries, rows, keys, features, channels;
};

// query, key, value and v, then g and b where there are.
Shapes shapes_of(const Additive& form, const Sizes& n) {
  Shapes shapes{{n.queries, n.rows, n.features},
                {n.keys, n.rows, n.features},
                {n.keys, n.rows, n.channels},
                {n.features}};
  if (form.g) shapes.push_back({1});
  if (form.b) shapes.push_back({n.features});
  return shapes;
}

Run run_of(const Additive& form) {
  return [form](const TensorList& x) {
    const AdditiveWeights weights{x[3], form.g ? x[4] : Tensor{}, form.b ? x.back() : Tensor{}};
    const AttentionResult result = additive_attention(x[0], x[1], x[2], weights, form.mask.made());
    if (!form.weights) return flat(result.context);
    return concat({flat(result.context), flat(result.weights)}, 0);
  };
}

Oracle oracle_of(const Additive& form) {
  return [form](const Arrays& x) {
    const Index queries = x[0].shape[0], rows = x[0].shape[1], keys = x[1].shape[0];
    const Index features = x[0].shape[2], channels = x[2].shape[2];
    double length = 0.0;
    for (Index j = 0; j < features; ++j) length += x[3](j) * x[3](j);
    const double factor = form.g ? x[4](0) / std::sqrt(length) : 1.0;
    Array context({queries, rows, channels}), weights({queries, rows, keys});
    for_each_index({queries, rows}, [&](const Indices& i) {
      const Index t = i[0], n = i[1];
      std::vector<double> scores;
      std::vector<bool> seen;
      for (Index s = 0; s < keys; ++s) {
        double score = 0.0;
        for (Index j = 0; j < features; ++j)
          score += x[3](j) * std::tanh(x[0](t, n, j) + x[1](s, n, j) + (form.b ? x.back()(j) : 0.0));
        scores.push_back(factor * score);
        seen.push_back(form.mask.sees(n, t, s, queries, keys));
      }
      const std::vector<double> w = weights_of(scores, seen);
      for (Index s = 0; s < keys; ++s) {
        weights(t, n, s) = w[static_cast<std::size_t>(s)];
        for (Index c = 0; c < channels; ++c) context(t, n, c) += weights(t, n, s) * x[2](s, n, c);
      }
    });
    std::vector<double> all = context.values;
    if (form.weights) all.insert(all.end(), weights.values.begin(), weights.values.end());
    const auto count = static_cast<Index>(all.size());
    return Array({count}, std::move(all));
  };
}

// On both sides of a vector of 16 and of a block of 64 features. One feature has no direction to learn: its
// gradient is rounding alone.
std::vector<Sizes> sizes_of(const Additive& form) {
  const Index one = form.g ? 2 : 1;
  if (form.mask.lengths.empty())
    return {{2, 2, 3, 4, 2},   {1, 1, 1, one, 1}, {3, 2, 5, 17, 16}, {4, 1, 9, 70, 33},
            {3, 2, 2, 129, 1}, {0, 2, 3, 4, 2},   {2, 0, 3, 4, 2},   {2, 2, 0, 3, 2}};
  const auto rows = static_cast<Index>(form.mask.lengths.size());
  return {{2, rows, 4, 2, 1}, {4, rows, 4, 3, 2}, {6, rows, 5, 65, 20}};
}

std::vector<Refusal> additive_refusals() {
  const auto call = [](const Shape& query, const Shape& key, const Shape& value, const Shape& v,
                       const Mask& mask = {}, const Shape& g = {1}) {
    return [=] {
      static_cast<void>(
          additive_attention(zeros(query), zeros(key), zeros(value), {zeros(v), zeros(g), {}}, mask.made()));
    };
  };
  return {
      {"[additive_attention] query must be floating [Tq,N,A], got f32[2,3]",
       call({2, 3}, {2, 1, 3}, {2, 1, 3}, {3})},
      {"[additive_attention] query [2,1,3] expects keys [Tk,1,3], got [2,1,4]",
       call({2, 1, 3}, {2, 1, 4}, {2, 1, 3}, {3})},
      {"[additive_attention] key [2,1,3] expects values [2,1,C], got [2,2,3]",
       call({2, 1, 3}, {2, 1, 3}, {2, 2, 3}, {3})},
      {"[additive_attention] query [2,1,0] has no features", call({2, 1, 0}, {2, 1, 0}, {2, 1, 3}, {0})},
      {"[additive_attention] v must be floating [3], got f32[4]", call({2, 1, 3}, {2, 1, 3}, {2, 1, 3}, {4})},
      {"[additive_attention] g must be floating [1], got f32[3]",
       call({2, 1, 3}, {2, 1, 3}, {2, 1, 3}, {3}, {}, {3})},
      {"[additive_attention] length 3 of row 0 lies outside [0,2]",
       call({2, 1, 3}, {2, 1, 3}, {2, 1, 3}, {3}, {{3}, false})},
      {"[additive_attention] lengths must be i64 [1] in host memory",
       call({2, 1, 3}, {2, 1, 3}, {2, 1, 3}, {3}, {{1, 1}, false})}};
}

Rows additive_rows() {
  const std::vector<Additive> forms = {
      {.name = "normalised"},
      {.name = "without bias", .b = false},
      {.name = "plain", .g = false},
      {.name = "plain, without bias, context alone", .g = false, .b = false, .weights = false},
      {.name = "lengths", .mask = {{4, 0, 1, 3}, false}},
      {.name = "causal", .mask = {{}, true}},
      {.name = "causal, lengths, context alone", .mask = {{2, 4, 0}, true}, .weights = false}};
  Rows rows;
  for (const Additive& form : forms) {
    const Draw sequence{.low = -1.5, .high = 1.5};
    const Draw vector{.low = -1, .high = 1, .kinks = {0}, .clearance = 0.2, .parameter = true};
    std::vector<Draw> draws{sequence, sequence, sequence, vector};
    if (form.g) draws.push_back({.low = 1, .high = 2, .parameter = true});
    if (form.b) draws.push_back(vector);
    Row row{.op = "additive_attention",
            .variant = form.name,
            .run = run_of(form),
            .oracle = oracle_of(form),
            .cases = {},
            .draws = draws,
            .normalised = true,
            .slack = 2.0};  // weights are rounded, and what is summed with them is, too
    for (const Sizes& n : sizes_of(form)) row.cases.push_back(shapes_of(form, n));
    rows.push_back(std::move(row));
  }
  rows.front().refusals = additive_refusals();
  return rows;
}

}  // namespace

Rows tandem::test::attention_rows() {
  Rows rows;
  for (Rows (*part)() : {softmax_forms, dot_product_rows, additive_rows}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}
