// Attention against PyTorch's values and gradients (tests/golden/attention.py) in f64 on the device, and
// properties outside the op harness: masked values without effect, threads, dropout, memory.
#include "autograd/ops/attention.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/allocator.h"
#include "tests/golden/attention.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr Index kQueries = golden::kQueries, kKeys = golden::kKeys, kRows = golden::kRows;

Tensor lengths_of(const std::vector<std::int64_t>& lengths) {
  return Tensor::from(lengths, Shape{static_cast<Index>(lengths.size())});
}

std::vector<double> numbers(Index count, double step, double shift, double (*f)(double)) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(f(step * static_cast<double>(i) + shift));
  return values;
}

// Tensor k of a golden case.
Tensor drawn(int k, const Shape& shape) {
  return leaf(tensor_of(numbers(shape.numel(), 1.7, 0.9 * k + 0.3, [](double x) { return std::sin(x); }),
                        shape, DType::f64));
}

Tensor seed_of(const Tensor& y) {
  return tensor_of(numbers(y.numel(), 0.37, 0.0, [](double x) { return std::cos(x); }), y.shape(),
                   DType::f64);
}

struct Call {
  TensorList inputs, results;
};

Call call_of(const golden::Attention& wanted) {
  AttentionMask mask{.causal = wanted.causal};
  if (wanted.lengths) mask.lengths = lengths_of({golden::kLengths.begin(), golden::kLengths.end()});
  const std::string name = wanted.name;
  Call call;
  TensorList& in = call.inputs;
  if (name == "masked_softmax") {
    in = {drawn(0, {kRows, kQueries, kKeys})};
    call.results = {masked_softmax(in[0] * 3.0, mask)};
  } else if (name == "scaled_dot_product_attention") {
    const Index heads = golden::kHeads, features = heads * golden::kHeadSize;
    in = {drawn(0, {kQueries, kRows, features}), drawn(1, {kKeys, kRows, features}),
          drawn(2, {kKeys, kRows, heads * golden::kChannels})};
    const auto apart = [&](const Tensor& t) {
      return permute(reshape(t, {t.size(0), kRows, heads, t.size(2) / heads}), {1, 2, 0, 3});
    };
    const Tensor y = scaled_dot_product_attention(apart(in[0]), apart(in[1]), apart(in[2]),
                                                  {.lengths = mask.lengths, .causal = mask.causal});
    call.results = {reshape(permute(y, {2, 0, 1, 3}), {kQueries, kRows, heads * golden::kChannels})};
  } else {
    const bool plain = name == "additive_attention plain";
    in = {drawn(0, {kQueries, kRows, golden::kFeatures}), drawn(1, {kKeys, kRows, golden::kFeatures}),
          drawn(2, {kKeys, kRows, golden::kChannels}), drawn(3, {golden::kFeatures})};
    if (!plain) in.insert(in.end(), {drawn(4, {1}), drawn(5, {golden::kFeatures})});
    const AttentionResult result = additive_attention(
        in[0], in[1], in[2], {in[3], plain ? Tensor{} : in[4], plain ? Tensor{} : in[5]}, mask);
    call.results = {result.context, result.weights};
  }
  return call;
}

std::vector<double> joined(const TensorList& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors) {
    const auto values = t.to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void check_close(const std::vector<double>& got, const std::vector<double>& wanted,
                 double tolerance = 1e-10) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i);
    CHECK(got[i] == Approx(wanted[i]).margin(tolerance));
  }
}

// Sizes that several threads divide among themselves.
struct Sequences {
  Tensor query, key, value;
  AdditiveWeights weights;
};

Sequences sequences(Index queries, Index rows, Index keys, Index features, Index channels,
                    DType dtype = DType::f32) {
  return {leaf(random_tensor({queries, rows, features}, dtype, 1)),
          leaf(random_tensor({keys, rows, features}, dtype, 2)),
          leaf(random_tensor({keys, rows, channels}, dtype, 3)),
          {leaf(random_tensor({features}, DType::f32, 4)), leaf(random_tensor({1}, DType::f32, 5, 1.0, 2.0)),
           leaf(random_tensor({features}, DType::f32, 6))}};
}

TensorList inputs_of(const Sequences& s) {
  return {s.query, s.key, s.value, s.weights.v, s.weights.g, s.weights.b};
}

TensorList gradients_of(const Tensor& y, const TensorList& inputs) {
  const Tensor dy = random_tensor(y.shape(), y.dtype(), 99);
  return gradients(std::span(&y, 1), std::span(&dy, 1), inputs);
}

// `t` [T,N,C] with NaN in the steps of each row from its length on.
Tensor poisoned(const Tensor& t, const std::vector<std::int64_t>& lengths) {
  std::vector<double> values = t.to_vector<double>();
  for (Index step = 0; step < t.size(0); ++step) {
    for (Index n = 0; n < t.size(1); ++n) {
      for (Index c = 0; c < t.size(2) && step >= lengths[static_cast<std::size_t>(n)]; ++c)
        values[static_cast<std::size_t>((step * t.size(1) + n) * t.size(2) + c)] = std::nan("");
    }
  }
  return leaf(tensor_of(values, t.shape(), t.dtype()));
}

}  // namespace

TEST_CASE("attention gives PyTorch's values and gradients", "[attention]") {
  for (const golden::Attention& wanted : golden::kAttention) {
    INFO(wanted.name << (wanted.lengths ? ", lengths" : "") << (wanted.causal ? ", causal" : ""));
    const Call call = call_of(wanted);
    check_close(joined(call.results), wanted.results);
    TensorList seeds;
    for (const Tensor& y : call.results) seeds.push_back(seed_of(y));
    check_close(joined(gradients(call.results, seeds, call.inputs)), wanted.gradients);
  }
}

TEST_CASE("published vectors of dot product attention", "[attention]") {
  const auto attend = [](const std::vector<std::int64_t>& lengths) {
    const Tensor y =
        scaled_dot_product_attention(floats({1, 0, 0, 1}, {1, 2, 2}), floats({1, 1, 0, 2, 3, 0}, {1, 3, 2}),
                                     floats({1, 2, 3, 4, 5, 6}, {1, 3, 2}), {.lengths = lengths_of(lengths)});
    return y.to_vector<double>();
  };
  check_close(attend({3}), {4.110622, 5.110622, 2.712068, 3.712068}, 1e-5);
  check_close(attend({2}), {1.660477, 2.660477, 2.339523, 3.339523}, 1e-5);
  CHECK(attend({0}) == std::vector<double>(4, 0.0));
}

TEST_CASE("masked positions have no effect, whatever their values", "[attention]") {
  const std::vector<std::int64_t> lengths{3, 0, 1};
  const AttentionMask mask{.lengths = lengths_of(lengths)};
  SECTION("scores, and gradients of weights") {
    const Tensor clean = random_tensor({3, 2, 4}, DType::f32, 7);
    std::vector<double> values = clean.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (static_cast<std::int64_t>(i % 4) >= lengths[i / 8]) values[i] = i % 2 ? std::nan("") : INFINITY;
    }
    const Tensor dirty = tensor_of(values, clean.shape(), DType::f32);
    const Tensor x = leaf(clean), z = leaf(dirty);
    const Tensor y = masked_softmax(x, mask), w = masked_softmax(z, mask);
    CHECK(w.to_vector<double>() == y.to_vector<double>());
    for (const bool create_graph : {false, true}) {
      const auto from = [&](const Tensor& of, const Tensor& to, const Tensor& dy) {
        return gradients(std::span(&of, 1), std::span(&dy, 1), std::span(&to, 1),
                         {.retain_graph = true, .create_graph = create_graph})
            .front()
            .to_vector<double>();
      };
      CHECK(from(w, z, dirty) == from(y, x, clean));
    }
  }
  SECTION("keys and values") {
    Sequences s = sequences(2, 3, 4, 20, 5);
    const auto results = [&](const Sequences& q) {
      const AttentionResult r = additive_attention(q.query, q.key, q.value, q.weights, mask);
      TensorList all = gradients_of(r.context, inputs_of(q));
      all.insert(all.end(), {r.context, r.weights});
      return joined(all);
    };
    const std::vector<double> clean = results(s);
    s.key = poisoned(s.key, lengths), s.value = poisoned(s.value, lengths);
    CHECK(results(s) == clean);
  }
}

TEST_CASE("a query that sees no key has weights and gradients of 0", "[attention]") {
  const Sequences s = sequences(2, 2, 3, 4, 2, DType::bf16);
  const AttentionResult r =
      additive_attention(s.query, s.key, s.value, s.weights, {.lengths = lengths_of({0, 0})});
  const TensorList all = gradients_of(r.context, inputs_of(s));
  for (const TensorList& list : {TensorList{r.context, r.weights}, all}) {
    for (const double value : joined(list)) CHECK(value == 0.0);
  }
  const Tensor x =
      leaf(Tensor::full({2, 3}, -std::numeric_limits<double>::infinity(), {.device = test_device()}));
  const Tensor y = masked_softmax(x, {.lengths = lengths_of({0, 0})});
  CHECK(joined({y}) == std::vector<double>(6, 0.0));
  CHECK(joined(gradients_of(y, {x})) == std::vector<double>(6, 0.0));
}

TEST_CASE("additive attention gives the same bits on any number of threads", "[attention]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Sequences s = sequences(9, 5, 11, 150, 37, dtype);
    const AttentionMask mask{.lengths = lengths_of({11, 3, 0, 7, 10})};
    const auto results = [&] {
      const AttentionResult r = additive_attention(s.query, s.key, s.value, s.weights, mask);
      TensorList all = gradients_of(r.context, inputs_of(s));
      all.insert(all.end(), {r.context, r.weights});
      return joined(all);
    };
    const int outer = omp_get_max_threads();
    omp_set_num_threads(4);
    const std::vector<double> several = results();
    omp_set_num_threads(outer);
    const OneThread one;
    CHECK(results() == several);
  }
}

TEST_CASE("additive attention gives each gradient alone, and of each result alone", "[attention]") {
  const Sequences s = sequences(3, 3, 4, 5, 2, DType::f64);
  const AttentionMask mask{.lengths = lengths_of({4, 0, 2}), .causal = true};
  const TensorList all = inputs_of(s);
  const auto attend = [&](const TensorList& in) {
    const AttentionResult r = additive_attention(in[0], in[1], in[2], {in[3], in[4], in[5]}, mask);
    return TensorList{r.context, r.weights};
  };
  for (const std::size_t result : {0u, 1u}) {
    TensorList composed;
    {
      const HigherOrder scope;
      composed = gradients_of(attend(all)[result], all);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO("result " << result << ", input " << i);
      TensorList in;
      for (const Tensor& t : all) in.push_back(t.detach());
      in[i] = leaf(in[i]);
      const Tensor y = attend(in)[result];
      const bool depends = composed[i].defined();
      check_close(
          joined(gradients_of(y, {in[i]})),
          depends ? joined({composed[i]}) : std::vector<double>(static_cast<std::size_t>(in[i].numel())));
    }
  }
}

TEST_CASE("composed attention is made of masked softmax, dropout and products", "[attention]") {
  const Tensor x = random_tensor({2, 2, 4, 3}, DType::f32, 8);
  const auto attend = [&](bool training) {
    const RandomScope scope(17, /*step=*/3, /*micro_batch=*/1);
    return scaled_dot_product_attention(x, x, x, {.dropout = 0.5, .training = training, .composed = true});
  };
  const RandomScope scope(17, /*step=*/3, /*micro_batch=*/1);
  const Tensor weights = masked_softmax(matmul(x * (1.0 / std::sqrt(3.0)), x, false, true));
  CHECK(joined({attend(true)}) == joined({matmul(dropout(weights, 0.5), x)}));
  CHECK(joined({attend(false)}) == joined({matmul(weights, x)}));
}

TEST_CASE("additive attention stores no tensor of queries, keys and features", "[attention]") {
  if (test_device().type != DeviceType::cpu) return;
  constexpr Index kSteps = 24, kFeatures = 256;
  const Sequences s = sequences(kSteps, 4, kSteps, kFeatures, kFeatures);
  const std::size_t before = host_allocator().figures().live;
  host_allocator().reset_peak();
  const AttentionResult r = additive_attention(s.query, s.key, s.value, s.weights);
  gradients_of(r.context, inputs_of(s));
  const std::size_t sequence = kSteps * 4 * kFeatures * sizeof(float);
  CHECK(host_allocator().figures().peak - before < 10 * sequence);  // of the 24 that tanh would take
}
