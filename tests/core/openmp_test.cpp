// OpenMP's settings of a thread: its number of threads counts, the others do not.
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>

#include "core/backend.h"
#include "core/cpu/cpu_features.h"
#include "core/cpu/level.h"
#include "core/cpu/onednn.h"
#include "core/cpu/parallel.h"
#include "core/error.h"
#include "core/tensor.h"

using namespace tandem;
using cpu::onednn::Convolution;
using cpu::onednn::Pass;

namespace {

// In a new thread, after `set`.
void in_thread(const std::function<void()>& set, const std::function<void()>& then) {
  std::thread([&] {
    omp_set_num_threads(2);
    set();
    then();
  }).join();
}

Convolution filter_gradient(DType dtype) {
  return {.batch = 4,
          .height = 7,
          .width = 7,
          .channels = 16,
          .out_height = 7,
          .out_width = 7,
          .out_channels = 16,
          .kernel_height = 3,
          .kernel_width = 3,
          .options = {.padding = {1, 1}},
          .dtype = dtype};
}

Tensor counting(const Shape& shape, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
  const Tensor result = Tensor::empty(shape, {.dtype = dtype});
  cpu::backend().cast(Tensor::from(values, shape), result, false);
  return result;
}

}  // namespace

TEST_CASE("OpenMP's settings of a thread make no loop smaller", "[openmp]") {
  const std::pair<const char*, std::function<void()>> settings[] = {
      {"dynamic", [] { omp_set_dynamic(1); }},
      {"no levels", [] { omp_set_max_active_levels(0); }},
      {"both", [] { omp_set_dynamic(1), omp_set_max_active_levels(0); }}};
  for (const auto& [name, set] : settings) {
    int planned = 0;
    std::atomic<int> at_work = 0, most = 0;
    in_thread(set, [&] {
      planned = cpu::threads();
      // Each share waits for the other one.
      cpu::parallel_shares(planned, 2, [&](Index) {
        most = std::max(most.load(), ++at_work);
        while (most < 2) std::this_thread::yield();
      });
    });
    INFO(name);
    CHECK(planned == 2);
    CHECK(most == 2);
  }
}

TEST_CASE("within a parallel region of OpenMP there is one thread", "[openmp]") {
  in_thread([] {},
            [] {
              CHECK(cpu::threads() == 2);
              int inner = 0;
#pragma omp parallel reduction(+ : inner)
              inner += cpu::threads();
              CHECK(inner == 2);
            });
}

TEST_CASE("a primitive has one thread, whatever the number when it was made and runs", "[openmp][onednn]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && !cpu::onednn::multiplies_bf16()) continue;
    const Convolution problem = filter_gradient(dtype);
    const Tensor x = counting({4, 7, 7, 16}, dtype), dy = counting({4, 7, 7, 16}, dtype);
    in_thread([] {},
              [&] {
                const auto made = [&](int count) {
                  cpu::set_threads(count);
                  return cpu::onednn::convolution(Pass::filter_gradient, problem);
                };
                const auto by_one = made(1), by_two = made(2);
                const auto result = [&](const cpu::onednn::Primitive& primitive, int count) {
                  cpu::set_threads(count);
                  std::vector<float> sums(primitive.bytes(2) / sizeof(float));
                  primitive.run({x.raw(), dy.raw(), sums.data()});
                  CHECK(cpu::threads() == count);
                  return sums;
                };
                // Sums of small integers are exact.
                const std::vector<float> expected = result(*by_one, 1);
                CHECK(result(*by_one, 2) == expected);
                CHECK(result(*by_two, 2) == expected);
                CHECK(result(*by_two, 1) == expected);
              });
  }
}

TEST_CASE("a thread whose stack kernels would overrun is refused", "[openmp]") {
  pthread_attr_t attributes;
  REQUIRE(::pthread_attr_init(&attributes) == 0);
  REQUIRE(::pthread_attr_setstacksize(&attributes, cpu::kLeastStack / 2) == 0);
  std::string error;
  const auto call = [](void* to) -> void* {
    try {
      cpu::parallel_shares(2, 2, [](Index) {});
    } catch (const UserError& e) {
      *static_cast<std::string*>(to) = e.what();
    }
    return nullptr;
  };
  pthread_t thread;
  REQUIRE(::pthread_create(&thread, &attributes, call, &error) == 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
  CHECK_THAT(error, Catch::Contains("kernels need 512") && Catch::Contains("ulimit -s"));
}
