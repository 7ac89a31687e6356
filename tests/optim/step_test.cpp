// The step as a transaction: changed parameters, their values, and its cost.
#include "optim/step.h"

#include <omp.h>

#include <limits>

#include "autograd/ops/reduce.h"
#include "core/allocator.h"
#include "core/backend.h"
#include "core/convert.h"
#include "core/kernels/update.h"
#include "core/kernels/update_rules.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/sgd.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("parameters without a gradient are left alone", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Adam adam(toy->parameters(), {.lr = 0.1, .weight_decay = 0.5});
  optim::Step step(*toy, {&adam});
  const Values bias = values_of((*toy)[1].value());
  for (int t = 0; t < 3; ++t) {
    step.backward(golden_loss(*toy, t, false));
    step.apply();
  }
  CHECK(same_bits(values_of((*toy)[1].value()), bias));
  for (const auto& [name, tensor] : step.state()) {
    if (name == "updates.bias") CHECK(tensor.item() == 0.0);
    if (name == "updates.weight") CHECK(tensor.item() == 3.0);
  }
}

TEST_CASE("several optimizers share one step", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd({toy->parameters()[0]}, {.lr = 0.2, .momentum = 0.9});
  optim::Adam adam({toy->parameters()[1]}, {.lr = 0.05});
  optim::Step step(*toy, {&sgd, &adam});
  const auto alone = weight_and_bias();
  optim::Adam all(alone->parameters(), {.lr = 0.05});
  optim::Step other(*alone, {&all});
  for (int t = 0; t < 4; ++t) {
    step.backward(golden_loss(*toy, t));
    step.apply();
    other.backward(golden_loss(*alone, t));
    other.apply();
  }
  CHECK(step.last_report().learning_rate == 0.2);
  const Values mixed = values_of((*toy)[1].value()), adam_only = values_of((*alone)[1].value());
  for (std::size_t i = 0; i < 3; ++i) CHECK(mixed[i] == Approx(adam_only[i]).epsilon(1e-6));
  CHECK_FALSE(same_bits(values_of((*toy)[0].value()), values_of((*alone)[0].value())));
}

TEST_CASE("the master's version moves once per applied step, and a stale graph is refused", "[optim]") {
  const auto toy = weight_and_bias();
  optim::Sgd sgd(toy->parameters(), {.lr = 0.1});
  optim::Step step(*toy, {&sgd});
  const std::uint64_t version = step.buffers().masters().version();
  const Tensor stale = matmul(reshape((*toy)[0], {1, 6}), reshape((*toy)[0], {6, 1}));
  step.backward(golden_loss(*toy, 0));
  step.apply();
  CHECK(step.buffers().masters().version() == version + 1);
  CHECK_THROWS_AS(step.backward(stale), UserError);
}

TEST_CASE("results do not depend on the number of threads", "[optim]") {
  const auto train = [](int threads) {
    const int usual = omp_get_max_threads();
    omp_set_num_threads(threads);
    const auto toy = std::make_shared<Toy>();
    toy->add("big", {301, 333}, [](Index i) { return std::sin(0.3 * static_cast<double>(i)); });
    toy->add("small", {7}, [](Index i) { return static_cast<double>(i); });
    toy->add("odd", {40001}, [](Index i) { return std::cos(0.11 * static_cast<double>(i)); });
    optim::Lamb lamb(toy->parameters(), {.lr = 0.01, .weight_decay = 0.1, .adapt_vectors = true});
    optim::Step step(*toy, {&lamb}, {.clip_norm = 0.1, .ema = optim::EmaOptions{}});
    for (int t = 0; t < 3; ++t) {
      // By a reduction of Tandem's own: the order of a library's product may depend on the number of threads.
      const auto term = [&](std::size_t p) {
        const Parameter& w = (*toy)[p];
        return sum(mul(w, Tensor::from(golden_gradient(p, w.value().numel(), t), w.value().shape())));
      };
      Tensor loss = term(0);
      for (std::size_t p = 1; p < 3; ++p) loss = add(loss, term(p));
      step.backward(loss);
      step.apply();
    }
    omp_set_num_threads(usual);
    return snapshot(step);
  };
  const auto one = train(1);
  for (const int threads : {2, 3, 4}) {
    const auto other = train(threads);
    for (std::size_t i = 0; i < one.size(); ++i) {
      CAPTURE(threads, one[i].first);
      CHECK(same_tensor(one[i].second, other[i].second));
    }
  }
}

TEST_CASE("later steps request no memory from the system", "[optim]") {
  const auto toy = weight_and_bias();
  toy->add_running("mean", {1.0f});
  optim::Adam adam(toy->parameters());
  optim::Step step(
      *toy, {&adam},
      {.schedule = optim::cosine(0.1, 100), .clip_norm = 1.0, .accumulate = 2, .ema = optim::EmaOptions{}});
  std::uint64_t requests = 0;
  for (int t = 0; t < 20; ++t) {
    step.backward(golden_loss(*toy, t), 3.0);
    step.backward(golden_loss(*toy, t), 2.0);
    step.apply();
    step.last_report();
    if (t == 0) requests = host_allocator().figures().system_requests;
  }
  CHECK(host_allocator().figures().system_requests == requests);
}

TEST_CASE("the fused pass writes the 16-bit working copy of the new master", "[optim]") {
  const Index n = 5003;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor master =
        Tensor::from(tabulate(n, [](Index i) { return 3.0 * std::sin(0.7 * static_cast<double>(i)); }), {n});
    const Tensor gradient =
        Tensor::from(tabulate(n, [](Index i) { return std::cos(1.7 * static_cast<double>(i)); }), {n});
    const Tensor working = Tensor::zeros({n}, {.dtype = dtype});
    const Tensor counts = Tensor::zeros({1}, {.dtype = DType::i64});
    StepState host;
    host.learning_rate = 0.01;
    const Tensor state = Tensor::zeros({sizeof(StepState)}, {.dtype = DType::u8});
    std::memcpy(state.raw(), &host, sizeof(host));
    const UpdateRange range{.first = 16, .count = n - 16};
    Backend& backend = backend_for({});
    backend.update().update(update_rules::Sgd{}, {&range, 1},
                            {.master = master, .gradient = gradient, .working = working, .counts = counts},
                            state);
    const Values w = values_of(master), copy = values_of(working);
    for (Index i = 0; i < n; ++i) {
      const float value = w[static_cast<std::size_t>(i)];
      const float rounded =
          dtype == DType::f16 ? widen(convert<Half>(value)) : widen(convert<BFloat16>(value));
      if (copy[static_cast<std::size_t>(i)] != (i < 16 ? 0.0f : rounded)) FAIL("element " << i);
    }
  }
}
