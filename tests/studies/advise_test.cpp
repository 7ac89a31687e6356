// Rooflines, idle units, batch sizes: arithmetic by hand; and the products of a model.
#include <catch2/catch.hpp>
#include <cmath>

#include "config/load.h"
#include "config/task.h"
#include "models/advice.h"
#include "studies/advise/products.h"
#include "studies/advise/roofline.h"

using namespace tandem;
using namespace tandem::advise;

TEST_CASE("an op is bound by the greatest of compute, memory and overhead", "[advise]") {
  const Rates rates{.flops = 1e12, .bytes_per_second = 1e11, .overhead = 1e-6};
  const Work products{.flop = 10'000'000, .bytes = 100'000}, moves{.flop = 0, .bytes = 1'000'000},
      small{.flop = 1000, .bytes = 1000};
  CHECK(estimated_seconds(products, rates) == Approx(11e-6));
  CHECK(estimated_seconds(products, rates, 0.5) == Approx(21e-6));
  CHECK(estimated_seconds(moves, rates) == Approx(11e-6));
  CHECK(bound_of(products, rates, 12e-6) == Bound::compute);
  CHECK(bound_of(moves, rates, 12e-6) == Bound::memory);
  CHECK(bound_of(small, rates, 1e-6) == Bound::overhead);
  CHECK(bound_of(products, rates, 44.1e-6) == Bound::overhead);  // more than four times the estimate
  CHECK(bound_of(products, rates, 43.9e-6) == Bound::compute);
}

TEST_CASE("units are filled by multiples of their sizes", "[advise]") {
  CHECK(filled({.m = 64, .n = 8, .k = 16}, kTensorCore) == 1.0);
  CHECK(filled({.m = 64, .n = 10, .k = 16}, kTensorCore) == 10.0 / 16.0);
  CHECK(filled({.m = 64, .n = 16, .k = 27}, kAmx) == 27.0 / 32.0);
  CHECK(filled({.m = 8, .n = 24, .k = 16}, kAmx) == 0.5 * 0.75 * 0.5);
  CHECK(filled({.m = 64, .n = 6, .k = 27, .taps = 9}, kTensorCore) == 6.0 / 8 * 3 / 8);
  CHECK(filled_up(1, 8) == 8);
  CHECK(filled_up(16, 8) == 16);
}

TEST_CASE("the batch that brings products to the machine's FLOP a byte", "[advise]") {
  // V100 as published: 139 FLOP a byte. B·1024·1024/(2·B·1024 + 1024²) reaches 139 at B = 190.8.
  const std::vector<BatchProduct> one{{{.m = 32, .n = 1024, .k = 1024}, 1000}};
  const auto advice = batch_for(one, 32, 139.0, 8, 100'000);
  REQUIRE(advice);
  CHECK(advice->batch == 192);
  CHECK(advice->reached == 1.0);
  CHECK(batch_for(one, 32, 139.0, 64, 100'000)->batch == 192);
  // Memory holds less: as much as it does.
  CHECK(batch_for(one, 32, 139.0, 8, 100)->batch == 96);
  CHECK(batch_for(one, 32, 139.0, 8, 100)->reached == 0.0);
  CHECK(batch_for(one, 32, 139.0, 8, 5)->batch == 5);
  // One that never gets there does not count; without another there is no such batch.
  const std::vector<BatchProduct> narrow{{{.m = 32, .n = 64, .k = 64}, 1000}};
  CHECK_FALSE(batch_for(narrow, 32, 139.0, 8, 100'000));
  const std::vector<BatchProduct> both{one[0], narrow[0]};
  CHECK(batch_for(both, 32, 139.0, 8, 100'000)->batch == 192);
  CHECK(batch_for(both, 32, 139.0, 8, 100'000)->reached == 0.5);
}

TEST_CASE("a line through two peaks says what memory holds", "[advise]") {
  CHECK(greatest_batch(8, 180.0, 16, 260.0, 1000.0) == 80);  // 100 + 10 B within 900
  CHECK(greatest_batch(8, 180.0, 16, 260.0, 100.0) == 0);
}

TEST_CASE("a step is as fast as its shares", "[advise]") {
  CHECK(step_speedup({.compute = 0.5, .memory = 0.0, .overhead = 0.5}, 5.0) == Approx(1.6667).epsilon(1e-4));
  CHECK(step_speedup({.compute = 0.0, .memory = 1.0, .overhead = 0.0}, 5.0) == 2.0);
}

TEST_CASE("products of a model, and layers with other widths", "[advise]") {
  const config::Loaded loaded =
      config::load("resnet20_synthetic",
                   {"data.batch_size=8", "model.width=4", "data.image_size=8", "precision=amp_bf16"});
  const auto products = products_of(loaded, config::describe_data(loaded.config));
  REQUIRE(products.size() >= 20);
  const Product& first = products.front();
  CHECK(first.size.m == 8 * 8 * 8);
  CHECK(first.size.n == 4);
  CHECK(first.size.k == 9);
  CHECK(first.inputs == 1);
  CHECK_FALSE(first.input_gradient);
  const Product& last = products.back();
  CHECK(last.key.op == "linear");
  CHECK(last.size.m == 8);
  CHECK(last.size.k == 16);
  CHECK(first.size.taps == 9);
  // `summary` says the same of a layer.
  const auto task = config::make_task(loaded, config::describe_data(loaded.config));
  const auto of_summary = models::shape_advice(models::summarise(task->model(), {8, 8, 1}));
  const auto conv1 = std::ranges::find(of_summary, "conv1", &models::ShapeAdvice::layer);
  REQUIRE(conv1 != of_summary.end());
  CHECK(filled(first.size, kTensorCore) == conv1->tensor_cores);
  CHECK(filled(first.size, kAmx) == conv1->amx);
  CHECK(conv1->tensor_cores == 4.0 / 8 * 1.0 / 8);
  const Product wider = first.resized(4, 8);
  CHECK(wider.size.k == 36);
  CHECK(wider.size.n == 8);
  CHECK(wider.x == Shape{8, 8, 8, 4});
  CHECK(wider.weight == Shape{8, 3, 3, 4});
  CHECK(wider.bytes() > first.bytes());
  const auto times = times_of({first, wider, last}, backend_for(Device{}), DType::bf16);
  REQUIRE(times.size() == 3);
  for (const double seconds : times) CHECK(seconds > 0.0);
}
