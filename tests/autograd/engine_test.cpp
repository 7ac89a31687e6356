// The engine under load: very deep graphs on a small stack, exceptions, threads.
#include "autograd/engine.h"

#include <pthread.h>

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "autograd/leaf.h"
#include "autograd/observers.h"
#include "tests/autograd/test_ops.h"
#include "tests/support/errors.h"
#include "tests/support/policy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int kDeep = 200000;

// Runs `work` on a thread with a stack of 256 KiB: 1.3 bytes for each node of the graphs below.
void on_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread;
  const auto start = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, &work) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

Tensor chain(Tensor x, int length) {
  for (int i = 0; i < length; ++i) x = i % 2 ? mul(x, -1.0) : add(x, 1.0);
  return x;
}

}  // namespace

TEST_CASE("a graph of 200,000 nodes builds, runs backward and is destroyed on a small stack", "[engine]") {
  double gradient = 0.0;
  std::size_t nodes = 0;
  on_small_stack([&] {
    const Tensor x = leaf(Tensor::scalar(1));
    const Tensor y = chain(x, kDeep);
    for (const Node* node = node_of(y); !node->inputs.empty();
         node = static_cast<Node*>(node->inputs[0].node.get()))
      ++nodes;
    backward(y);
    gradient = gradient_of(x).item();
  });
  CHECK(nodes == kDeep);
  CHECK(gradient == 1.0);  // (-1)^100000
}

TEST_CASE("a deep graph that never ran backward is destroyed on a small stack", "[engine]") {
  const Tensor x = leaf(Tensor::scalar(1));
  on_small_stack([&] { chain(x, kDeep); });
  CHECK(x.edge().node->use_count() == 1);
}

TEST_CASE("a deep graph whose nodes save tensors with edges is destroyed on a small stack", "[engine]") {
  const Tensor x = leaf(Tensor::scalar(1));
  double gradient = 0.0;
  on_small_stack([&] {
    Tensor y = x;
    for (int i = 0; i < kDeep; ++i) y = mul(y, x);  // saves y and x
    const Tensor kept = mul(y, 2.0);
    backward(y, 1.0, {.retain_graph = true});
    gradient = gradient_of(x).item();
  });
  CHECK(gradient == kDeep + 1.0);
  CHECK(x.edge().node->use_count() == 1);
}

TEST_CASE("a deep graph is differentiated under create_graph on a small stack", "[engine]") {
  double second = 0.0;
  on_small_stack([&] {
    const Tensor x = leaf(Tensor::scalar(1, {.dtype = DType::f64}));
    Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = mul(y, x);
    const Tensor one = Tensor::scalar(1, {.dtype = DType::f64});
    const Tensor g =
        gradients(std::span(&y, 1), std::span(&one, 1), std::span(&x, 1), {.create_graph = true})[0];
    second = gradients(std::span(&g, 1), std::span(&one, 1), std::span(&x, 1))[0].item();
  });
  CHECK(second == 20001.0 * 20000.0);
}

TEST_CASE("an exception in backward leaves the engine usable", "[engine]") {
  int failures = 1;
  const Tensor x = leaf(Tensor::from({2}, {1})), other = leaf(Tensor::from({5}, {1}));
  const Tensor inner = mul(x, 1.0);  // has received one of its two gradients when the other fails
  const Tensor y = sum(mul(mul(apply(Faulty{&failures}, {inner}).y, inner), other));
  CHECK_FAILS(UserError, backward(y, 1.0, {.retain_graph = true}), "as asked");
  CHECK(GradMode::enabled());
  CHECK(mul(x, x).requires_grad());
  clear_gradient_of(x);
  clear_gradient_of(other);
  backward(y);  // the same graph again
  CHECK(gradient_of(x).item() == 2 * 2 * 5.0);
  CHECK(gradient_of(other).item() == 4.0);
}

TEST_CASE("an exception in on_ready passes through, and backward works afterwards", "[engine]") {
  const Parameter p(Tensor::from({2}, {1}));
  p.leaf().on_ready = [](Leaf&) { throw UserError("hook", "stop"); };
  CHECK_FAILS(UserError, backward(sum(mul(p, p))), "[hook] stop");
  p.leaf().on_ready = nullptr;
  p.leaf().clear_gradient();
  backward(sum(mul(p, p)));
  CHECK(p.gradient().item() == 4.0);
}

TEST_CASE("tensors of a failed backward are freed with its graph", "[engine]") {
  int failures = 1;
  const Tensor x = leaf(Tensor::from({2}, {1}));
  const std::size_t live = host_allocator().figures().live;
  {
    const Tensor y = sum(mul(apply(Faulty{&failures}, {x}).y, Tensor::from({3}, {1})));
    CHECK_THROWS(backward(y));
  }
  CHECK(host_allocator().figures().live == live);
}

TEST_CASE("a step that is repeated holds no more memory", "[engine]") {
  const Tensor x = leaf(Tensor::full({1000}, 1.0));
  std::size_t live = 0;
  for (int step = 0; step < 4; ++step) {
    clear_gradient_of(x);
    backward(sum(mul(exp(mul(x, 0.5)), x)));
    const std::size_t now = host_allocator().figures().live;
    if (step > 0) CHECK(now == live);
    live = now;
  }
}

TEST_CASE("modes, policies and observers belong to their thread", "[engine]") {
  struct Nothing final : OpObserver {
  } observer;
  RulePolicy policy(DType::bf16);
  const NoGrad no_grad;
  const HigherOrder higher;
  const PrecisionScope precision(&policy);
  const ObserverScope observing(observer);
  bool fresh = false;
  std::thread([&] {
    fresh = GradMode::enabled() && !HigherOrder::active() && !PrecisionScope::active() &&
            !ObserverScope::innermost();
  }).join();
  CHECK(fresh);
  CHECK_FALSE(GradMode::enabled());
  CHECK(HigherOrder::active());
  CHECK(PrecisionScope::active() == &policy);
}

TEST_CASE("threads run backward over graphs of their own", "[engine]") {
  std::vector<double> results(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor x = leaf(Tensor::scalar(t + 1));
        backward(mul(chain(x, 100), x));
        results[static_cast<std::size_t>(t)] = gradient_of(x).item();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(results == std::vector<double>{2, 4, 6, 8});
}
