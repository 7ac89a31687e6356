// Fused attention against published vectors and against its composed form in f64: arrangements of heads,
// masks, grouped keys, dropout, types; properties of its sums.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/allocator.h"
#include "core/random.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Numbers = std::vector<double>;

Tensor integers(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

// y and the gradients of `inputs`, for a gradient of y that is the same in every type.
struct Outcome {
  Tensor y;
  TensorList gradients;
};

template <class Attend>
Outcome outcome_of(const TensorList& inputs, DType dtype, const Attend& attend) {
  TensorList leaves;
  for (const Tensor& x : inputs) leaves.push_back(leaf(cast(x, dtype)));
  const RandomScope scope(17, /*step=*/3, /*micro_batch=*/1);
  const Tensor y = attend(leaves);
  const Tensor dy = cast(cast(random_tensor(y.shape(), DType::f64, 99), DType::bf16), y.dtype());
  return {y, gradients(std::span(&y, 1), std::span(&dy, 1), leaves)};
}

// ‖got - wanted‖/‖wanted‖
double error_of(const Tensor& got, const Tensor& wanted) {
  const Numbers a = got.to_vector<double>(), b = wanted.to_vector<double>();
  REQUIRE(a.size() == b.size());
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  REQUIRE(std::isfinite(difference));
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

struct Published {
  const char* name;
  AttentionOptions options;
  Numbers y, dquery, dkey, dvalue;
};

}  // namespace

TEST_CASE("published vectors of attention and its gradients", "[attention]") {
  const std::vector<Published> vectors = {{"all",
                                           {},
                                           {4.110622, 5.110622, 2.712068, 3.712068},
                                           {1.487807, -.795705, .335814, -.109273},
                                           {-.588499, -.343809, -.103603, .117268, .692102, .226541},
                                           {.746361, -.194810, 1.239899, -.532001, 1.013740, .226811}},
                                          {"causal",
                                           {.causal = true},
                                           {1.660477, 2.660477, 2.712068, 3.712068},
                                           {-.469196, .469196, .335814, -.109273},
                                           {-.469196, -.343809, .469196, .117268, 0, .226541},
                                           {1.237752, .050885, 1.482189, -.410856, .280058, -.140029}},
                                          {"window of two",
                                           {.causal = true, .window = 2},
                                           {1.660477, 2.660477, 3.391141, 4.391141},
                                           {-.469196, .469196, .667463, -.444975},
                                           {-.469196, 0, .469196, -.222488, 0, .222488},
                                           {.669762, .334881, 1.939098, -.639310, .391141, -.195570}}};
  for (const Published& wanted : vectors) {
    INFO(wanted.name);
    const TensorList in{leaf(floats({1, 0, 0, 1}, {1, 2, 2})), leaf(floats({1, 1, 0, 2, 3, 0}, {1, 3, 2})),
                        leaf(floats({1, 2, 3, 4, 5, 6}, {1, 3, 2}))};
    const Tensor y = multi_head_attention(in[0], in[1], in[2], {}, wanted.options);
    const Tensor dy = floats({1, .5, 2, -1}, {1, 2, 2});
    const TensorList got = gradients(std::span(&y, 1), std::span(&dy, 1), in);
    const std::pair<Tensor, Numbers> pairs[] = {
        {y, wanted.y}, {got[0], wanted.dquery}, {got[1], wanted.dkey}, {got[2], wanted.dvalue}};
    for (const auto& [tensor, values] : pairs) {
      const Numbers found = tensor.to_vector<double>();
      REQUIRE(found.size() == values.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(values[i]).margin(2e-6));
    }
  }
}

TEST_CASE("published vectors of attention by distance and of grouped heads", "[attention]") {
  // The first of two heads has slope 1/16, so slope 1/2 is that of head 0 of eight; queries and keys of the
  // others are 0.
  const auto eight = [](const Tensor& x) {
    return concat({x, Tensor::zeros({1, x.size(1), 14}, x.options())}, 2);
  };
  const Tensor q = floats({1, 0, 0, 1}, {1, 2, 2}), k = floats({1, 1, 0, 2, 3, 0}, {1, 3, 2}),
               v = floats({1, 2, 3, 4, 5, 6}, {1, 3, 2});
  const Numbers by_distance = slice(multi_head_attention(eight(q), eight(k), eight(v), {.queries = 8},
                                                         {.causal = true, .alibi = true}),
                                    2, 0, 2)
                                  .to_vector<double>();
  const Numbers wanted{1.896815, 2.896815, 3.119737, 4.119737};
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(by_distance[i] == Approx(wanted[i]).margin(2e-6));

  const TensorList in{leaf(floats({1, 0, 0, 1, 0, 1, 1, 0}, {1, 2, 4})), leaf(k), leaf(v)};
  const Tensor y = multi_head_attention(in[0], in[1], in[2], {.queries = 2, .keys = 1});
  const Tensor dy = floats({1, .5, 1, .5, 2, -1, 2, -1}, {1, 2, 4});
  const TensorList got = gradients(std::span(&y, 1), std::span(&dy, 1), in);
  const Numbers results = y.to_vector<double>(), dkey = got[1].to_vector<double>(),
                dvalue = got[2].to_vector<double>();
  const Numbers second{2.712068, 3.712068, 4.110622, 5.110622};
  const Numbers dkeys{-.980832, -.859523, -.172672, .293170, 1.153503, .566353};
  const Numbers dvalues{1.387097, -.231183, 1.991772, -.331962, 2.621131, -.436855};
  for (std::size_t i = 0; i < 4; ++i) CHECK(results[i / 2 * 4 + 2 + i % 2] == Approx(second[i]).margin(2e-6));
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(dkey[i] == Approx(dkeys[i]).margin(2e-6));
    CHECK(dvalue[i] == Approx(dvalues[i]).margin(2e-6));
  }
}

namespace {

struct Form {
  const char* name;
  Index texts, queries, keys, heads, key_heads, width, value_width;
  AttentionOptions options = {};
};

std::vector<Form> forms() {
  const Tensor documents = Tensor::empty({2, 150}, {.dtype = DType::i64});
  for (Index t = 0; t < 150; ++t) {
    documents.data<std::int64_t>()[t] = t / 40 * 40;
    documents.data<std::int64_t>()[150 + t] = t < 77 ? 0 : 77;
  }
  return {{"one of everything", 1, 1, 1, 1, 1, 1, 1},
          {"a block", 2, 32, 32, 2, 2, 32, 32, {.causal = true}},
          {"odd sizes", 2, 37, 150, 3, 3, 20, 9},
          {"odd sizes, causal", 2, 37, 150, 3, 3, 20, 9, {.causal = true}},
          {"more queries than keys", 1, 70, 33, 2, 2, 16, 16, {.causal = true}},
          {"lengths", 3, 17, 140, 2, 2, 8, 8, {.lengths = integers({140, 0, 31}, {3})}},
          {"lengths, causal", 3, 80, 80, 1, 1, 8, 8, {.lengths = integers({80, 1, 66}, {3}), .causal = true}},
          {"grouped", 2, 20, 45, 6, 2, 64, 64, {.causal = true}},
          {"window", 1, 150, 150, 2, 1, 16, 16, {.causal = true, .window = 19}},
          {"documents", 2, 150, 150, 1, 1, 16, 24, {.causal = true, .documents = documents}},
          {"distance", 1, 40, 150, 5, 5, 16, 16, {.causal = true, .alibi = true}},
          {"dropout", 2, 39, 70, 2, 1, 16, 16, {.dropout = 0.3}},
          {"dropout, causal", 1, 70, 70, 2, 2, 16, 16, {.causal = true, .dropout = 0.5}},
          {"scale", 1, 33, 40, 2, 2, 16, 16, {.scale = -0.2}},
          // More than 512 queries: larger blocks in backward (core/cpu/kernels/attention_backward.cpp).
          {"many queries", 1, 530, 90, 1, 1, 16, 16, {.lengths = integers({77}, {1}), .dropout = 0.3}},
          {"many queries, causal", 1, 530, 530, 1, 1, 16, 16, {.causal = true}}};
}

TensorList inputs_of(const Form& form) {
  const auto drawn = [](const Shape& shape, unsigned seed) {
    return cast(random_tensor(shape, DType::bf16, seed, -2.0, 2.0), DType::f64);
  };
  return {drawn({form.texts, form.queries, form.heads * form.width}, 1),
          drawn({form.texts, form.keys, form.key_heads * form.width}, 2),
          drawn({form.texts, form.keys, form.key_heads * form.value_width}, 3)};
}

Tensor attend(const Form& form, const TensorList& in) {
  return multi_head_attention(in[0], in[1], in[2], {form.heads, form.key_heads}, form.options);
}

}  // namespace

TEST_CASE("fused attention is its composed form", "[attention]") {
  for (const Form& form : forms()) {
    INFO(form.name);
    const TensorList in = inputs_of(form);
    const auto run = [&](const TensorList& x) { return attend(form, x); };
    const Outcome exact = outcome_of(in, DType::f64, run);
    // Twice the error of FlashAttention-2's form with 16-bit weights, or rounding of f32.
    const std::tuple<DType, double> types[] = {
        {DType::f32, 3e-6}, {DType::bf16, 5.2e-3}, {DType::f16, 6.5e-4}};
    for (const auto& [dtype, tolerance] : types) {
      INFO(name_of(dtype));
      const Outcome got = outcome_of(in, dtype, run);
      CHECK(got.y.dtype() == dtype);
      CHECK(error_of(got.y, exact.y) < tolerance);
      for (std::size_t i = 0; i < in.size(); ++i) {
        INFO("gradient of input " << i);
        CHECK(error_of(got.gradients[i], exact.gradients[i]) < tolerance);
      }
    }
  }
}

TEST_CASE("attention of one projection, and of heads that are an axis, is that of columns", "[attention]") {
  const Form form{"", 2, 21, 21, 4, 2, 8, 8, {.causal = true}};
  const TensorList in = inputs_of(form);
  const Outcome apart = outcome_of(in, DType::f32, [&](const TensorList& x) { return attend(form, x); });
  const Outcome packed = outcome_of({concat(in, 2)}, DType::f32, [&](const TensorList& x) {
    return multi_head_attention(x[0], {form.heads, form.key_heads}, form.options);
  });
  CHECK(packed.y.to_vector<float>() == apart.y.to_vector<float>());
  CHECK(packed.gradients[0].to_vector<float>() == concat(apart.gradients, 2).to_vector<float>());
  const Outcome axis = outcome_of(in, DType::f32, [&](const TensorList& x) {
    const auto heads = [](const Tensor& t, Index count) {
      return permute(reshape(t, {t.size(0), t.size(1), count, t.size(2) / count}), {0, 2, 1, 3});
    };
    const Tensor y =
        scaled_dot_product_attention(heads(x[0], 4), heads(x[1], 2), heads(x[2], 2), form.options);
    return reshape(permute(y, {0, 2, 1, 3}), {2, 21, 32});
  });
  CHECK(axis.y.to_vector<float>() == apart.y.to_vector<float>());
  for (std::size_t i = 0; i < in.size(); ++i)
    CHECK(axis.gradients[i].to_vector<float>() == apart.gradients[i].to_vector<float>());
}

TEST_CASE("a query gives the same bits alone, in chunks and among others", "[attention]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Form form{"", 2, 140, 140, 2, 1, 24, 24, {.causal = true}};
    TensorList in = inputs_of(form);
    for (Tensor& x : in) x = cast(x, dtype);
    const auto whole = cast(attend(form, in), DType::f32).to_vector<float>();
    for (const Index chunk : {1, 7, 64}) {
      INFO(name_of(dtype) << ", chunks of " << chunk);
      for (const Index first : {Index{0}, Index{70}, Index{133}}) {
        const Index last = std::min<Index>(first + chunk, form.queries);
        AttentionOptions options = form.options;
        options.keys = last;  // of a cache
        const Tensor part = multi_head_attention(slice(in[0], 1, first, last), in[1], in[2],
                                                 {form.heads, form.key_heads}, options);
        const auto got = cast(part, DType::f32).to_vector<float>();
        const Index columns = form.heads * form.width;
        for (Index n = 0; n < form.texts; ++n)
          CHECK(std::equal(got.begin() + n * (last - first) * columns,
                           got.begin() + (n + 1) * (last - first) * columns,
                           whole.begin() + (n * form.queries + first) * columns));
      }
    }
  }
}

TEST_CASE("attention gives the same bits on any number of threads", "[attention]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Form form{"", 1, 600, 600, 3, 3, 16, 16, {.causal = true, .dropout = 0.1}};
    const TensorList in = inputs_of(form);
    const auto results = [&] {
      const Outcome got = outcome_of(in, dtype, [&](const TensorList& x) { return attend(form, x); });
      std::vector<float> all;
      for (const Tensor& t : {got.y, got.gradients[0], got.gradients[1], got.gradients[2]}) {
        const auto values = cast(t, DType::f32).to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
      return all;
    };
    const int outer = omp_get_max_threads();
    omp_set_num_threads(4);
    const std::vector<float> several = results();
    omp_set_num_threads(outer);
    const OneThread one;
    CHECK(results() == several);
  }
}

TEST_CASE("keys beyond a length have no effect on fused attention", "[attention]") {
  const Form form{"", 2, 9, 70, 1, 1, 8, 8, {.lengths = integers({33, 0}, {2})}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TensorList clean = inputs_of(form);
    TensorList dirty = clean;
    for (std::size_t i : {1u, 2u}) {
      Numbers values = dirty[i].to_vector<double>();
      for (Index t = 0; t < 140; ++t)
        for (Index c = 0; c < 8 && t % 70 >= (t < 70 ? 33 : 0); ++c)
          values[static_cast<std::size_t>(t * 8 + c)] = std::nan("");
      dirty[i] = tensor_of(values, dirty[i].shape(), DType::f64);
    }
    const auto run = [&](const TensorList& x) { return attend(form, x); };
    const Outcome a = outcome_of(clean, dtype, run), b = outcome_of(dirty, dtype, run);
    CHECK(a.y.to_vector<double>() == b.y.to_vector<double>());
    for (std::size_t i = 0; i < 3; ++i) {
      const Numbers got = b.gradients[i].to_vector<double>();
      CHECK(got == a.gradients[i].to_vector<double>());
      const std::size_t rows = got.size() / 2;
      CHECK(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(rows), got.end(),
                        [](double g) { return g == 0.0; }));
    }
  }
}

TEST_CASE("keys that are not in use have no gradient, also if they are queries", "[attention]") {
  const Tensor x = random_tensor({1, 5, 8}, DType::f32, 4);
  const auto gradient_of = [&](bool composed) {
    Tensor::full(x.shape(), 7.0, x.options());  // leaves memory that is not zero
    return outcome_of({x}, DType::f32,
                      [&](const TensorList& in) {
                        return multi_head_attention(in[0], in[0], in[0], {.queries = 2},
                                                    {.keys = 2, .composed = composed});
                      })
        .gradients[0];
  };
  CHECK(error_of(gradient_of(false), gradient_of(true)) < 1e-5);
}

TEST_CASE("what all keys share has no gradient through attention", "[attention]") {
  const Form form{"", 1, 50, 50, 2, 2, 16, 16, {.causal = true}};
  TensorList in = inputs_of(form);
  in.push_back(random_tensor({32}, DType::f64, 5));
  const Outcome got = outcome_of(in, DType::f32, [&](const TensorList& x) {
    return attend(form, {x[0], x[1] + x[3], x[2]});
  });
  double largest = 0.0, bias = 0.0;
  for (const double g : got.gradients[1].to_vector<double>()) largest = std::max(largest, std::abs(g));
  for (const double g : got.gradients[3].to_vector<double>()) bias = std::max(bias, std::abs(g));
  CHECK(bias < 2e-6 * largest * 50);
}

TEST_CASE("attention stores no scores", "[attention]") {
  if (test_device().type != DeviceType::cpu) return;
  const Form form{"", 1, 1024, 1024, 4, 4, 8, 8, {.causal = true}};
  TensorList leaves;
  for (const Tensor& x : inputs_of(form)) leaves.push_back(leaf(cast(x, DType::bf16)));
  const std::size_t before = host_allocator().figures().live;
  host_allocator().reset_peak();
  const Tensor y = attend(form, leaves);
  const std::size_t kept = host_allocator().figures().live - before;
  CHECK(kept <= y.bytes() + 4 * 1024 * sizeof(float) + 4096);
  const Tensor dy = random_tensor(y.shape(), y.dtype(), 9);
  gradients(std::span(&y, 1), std::span(&dy, 1), leaves);
  CHECK(host_allocator().figures().peak - before < std::size_t{4} * 1024 * 1024 * 2);
}

TEST_CASE("refusals of attention name the rule and the values", "[attention]") {
  const auto zeros_of = [](const Shape& shape) { return Tensor::zeros(shape, {.device = test_device()}); };
  const Tensor x = zeros_of({2, 3, 8});
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {.queries = 3}),
                    "[multi_head_attention] query must be floating [N,T,3·D], got f32[2,3,8]");
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {.queries = 4, .keys = 3}),
                    "[multi_head_attention] 3 heads of keys do not divide 4 heads of queries");
  CHECK_THROWS_WITH(multi_head_attention(x, zeros_of({2, 3, 4}), x, {.queries = 2}),
                    Catch::Contains("query [2,3,8] with 2 heads expects keys [2,T,8], got [2,3,4]"));
  CHECK_THROWS_WITH(multi_head_attention(x, {.queries = 3}),
                    Catch::Contains("the projection must be floating [N,T,9·D], got f32[2,3,8]"));
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {}, {.window = 2}),
                    Catch::Contains("windows and documents need a causal mask"));
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {}, {.causal = true, .window = -1}),
                    Catch::Contains("the window must be positive, or 0 for none; got -1"));
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {}, {.keys = 4}),
                    Catch::Contains("4 keys are more than the 3 of the tensor"));
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {}, {.dropout = 1.0}),
                    Catch::Contains("dropout must lie in [0,1), got 1"));
  CHECK_THROWS_WITH(multi_head_attention(x, x, x, {}, {.causal = true, .documents = integers({0, 0}, {2})}),
                    Catch::Contains("documents must be i64 [2,3] in host memory, got i64[2]"));
}
