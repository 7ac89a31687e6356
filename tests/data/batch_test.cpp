// Batches of named fields, their memory, and a source without samples of a data set.
#include "data/batch.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "data/loader.h"
#include "tests/device/emulator.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;
using Catch::Contains;
using test::Emulator;
using test::emulator;

namespace {

// Sequences of tokens in buckets of one length: batch k has 2 + k % 2 samples of 3 + k steps, [steps,
// samples], and counts its tokens.
class Buckets final : public Source {
 public:
  static constexpr Index kBatches = 5;

  explicit Buckets(const ShardSpec& division = {}, Device device = {})
      : Source(division), device_(device), layout_(division.most(3)) {
    layout_.add_whole("tokens", {3 + kBatches - 1, layout_.samples()}, DType::i64);
    layout_.add("length", {}, DType::i64);
    layout_.keep_on_host("length");
  }
  SourcePtr divided(const ShardSpec& finer) const override {
    return std::make_shared<Buckets>(division().into(finer), device_);
  }
  Device device() const override { return device_; }
  const BatchLayout& layout() const override { return layout_; }
  Index batches(std::uint32_t epoch) const override {
    return (kBatches - static_cast<Index>(epoch % 2)) * division().count;
  }
  Index samples_before(const BatchKey& key) const override {
    Index samples = 0;
    for (Index k = 0; k < undivided(key).number; ++k) samples += size(k);
    return samples;
  }
  void fill(const BatchKey& key, bool, BatchBuffer& buffer) const override {
    const Index number = undivided(key).number, steps = 3 + number, all = size(number);
    const Range part = division().samples(key.number, all);
    const auto first = static_cast<Index>(part.first), samples = static_cast<Index>(part.count());
    buffer.begin(samples);
    if (samples == 0) return;
    const Tensor tokens = buffer.field("tokens", {steps, samples});
    for (Index i = 0; i < samples; ++i) {
      for (Index t = 0; t < steps; ++t)
        tokens.data<std::int64_t>()[t * samples + i] = 1000 * key.epoch + 100 * number + t * all + first + i;
      buffer.field("length").data<std::int64_t>()[i] = steps - (first + i);
    }
    buffer.set_weight(static_cast<double>(steps * samples));
  }

 private:
  static Index size(Index number) { return 2 + number % 2; }
  Device device_;
  BatchLayout layout_;
};

std::vector<std::vector<std::int64_t>> epoch_of(Loader& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  while (const auto batch = loader.next()) {
    batches.push_back((*batch)["tokens"].to_vector<std::int64_t>());
    const auto lengths = (*batch)["length"].to_vector<std::int64_t>();
    batches.back().insert(batches.back().end(), lengths.begin(), lengths.end());
    batches.back().push_back(static_cast<std::int64_t>(batch->weight));
  }
  return batches;
}

}  // namespace

TEST_CASE("fields are found by name, and a missing one is told with those there are", "[batch]") {
  Batch batch({{"image", Tensor::zeros({2, 3})}, {"mask", Tensor::zeros({2}, {.dtype = DType::u8})}}, 2);
  CHECK(batch["image"].shape() == Shape{2, 3});
  CHECK(batch.weight == 2.0);
  CHECK_THROWS_WITH(batch["label"], Contains("no field \"label\"") && Contains("image, mask"));
  CHECK_THROWS_AS(batch["label"], UserError);
  CHECK_FALSE(batch.find("label").defined());
  batch.set("mask", Tensor::zeros({4}));
  batch.set("label", Tensor::zeros({2}));
  CHECK(batch.fields().size() == 3);
  CHECK(batch["mask"].numel() == 4);
}

TEST_CASE("a field that the host reads has a twin wherever the batch goes", "[batch][device_loader]") {
  const Device device = test::test_device();
  const auto numbers = [](std::vector<std::int64_t> values) { return Tensor::from(values, {2}); };
  Batch batch({{"length", numbers({3, 1})}, {"label", numbers({0, 1})}}, 2);
  CHECK(batch.on_host("length").shares_storage(batch["length"]));
  batch.keep_on_host("length");
  Batch moved = batch.to(device);
  CHECK(moved["length"].device() == device);
  CHECK(moved.on_host("length").shares_storage(batch["length"]));
  CHECK(moved.on_host("label").to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  CHECK(moved.like(Batch({{"length", moved["length"]}, {"label", moved["label"]}}, 2)));
  CHECK_THROWS_WITH(moved.on_host("mask"), Contains("no field \"mask\""));
  if (device != Device{}) CHECK_THROWS_WITH(moved.keep_on_host("label"), Contains("host memory"));
  moved.set("length", numbers({5, 6}).to(device));
  CHECK(moved.on_host("length").to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 6});
}

TEST_CASE("twins of a loader's batches are of their own, and cost no wait", "[batch][device_loader]") {
  const Emulator gpu = emulator();
  Loader here(std::make_shared<Buckets>(ShardSpec{}, test::test_device())), host(std::make_shared<Buckets>());
  std::vector<Batch> batches;
  while (auto batch = here.next()) batches.push_back(*batch);
  REQUIRE(batches.size() == Buckets::kBatches);
  const std::uint64_t waits = gpu ? gpu.counts().host_waits : 0;
  for (const Batch& batch : batches) {
    const Batch expected = *host.next();
    const Tensor lengths = batch.on_host("length");
    REQUIRE(lengths.device() == Device{});
    CHECK(lengths.to_vector<std::int64_t>() == expected["length"].to_vector<std::int64_t>());
  }
  if (gpu) CHECK(gpu.counts().host_waits == waits);
  for (const Batch& batch : batches)
    CHECK(batch["length"].to_vector<std::int64_t>() == batch.on_host("length").to_vector<std::int64_t>());
}

TEST_CASE("batches are alike when every field is", "[batch]") {
  const auto of = [](const char* name, const Shape& shape, DType dtype) {
    return Batch({{"label", Tensor::zeros({2})}, {name, Tensor::zeros(shape, {.dtype = dtype})}}, 2);
  };
  const Batch batch = of("image", {2, 3}, DType::f32);
  CHECK(batch.like(of("image", {2, 3}, DType::f32)));
  CHECK_FALSE(batch.like(of("photo", {2, 3}, DType::f32)));
  CHECK_FALSE(batch.like(of("image", {2, 4}, DType::f32)));
  CHECK_FALSE(batch.like(of("image", {2, 3}, DType::f16)));
  CHECK_FALSE(batch.like(Batch({{"label", Tensor::zeros({2})}}, 2)));
}

TEST_CASE("fields of a buffer lie apart, aligned, and no further than their room", "[batch]") {
  BatchLayout layout(4);
  layout.add("image", {3, 5}, DType::f32);
  layout.add("label", {}, DType::i64);
  layout.add_whole("tokens", {7, 4}, DType::i64);
  BatchBuffer buffer(layout, Tensor::zeros({layout.bytes()}, {.dtype = DType::u8}));
  buffer.begin(3);
  CHECK(buffer.field("image").shape() == Shape{3, 3, 5});
  CHECK(buffer.field("tokens").shape() == Shape{7, 4});
  CHECK(buffer.field("tokens", {9, 3}).shape() == Shape{9, 3});
  CHECK_THROWS_AS(buffer.field("tokens", {29}), InternalError);
  CHECK_THROWS_AS(buffer.field("mask"), InternalError);
  CHECK_THROWS_AS(buffer.begin(5), InternalError);
  for (const BatchLayout::Part& part : layout.parts())
    CHECK(part.offset % static_cast<Index>(CachingAllocator::kAlignment) == 0);
  const Batch batch = buffer.in(buffer.block());
  CHECK(batch.samples == 3);
  CHECK(batch["tokens"].shape() == Shape{9, 3});
  buffer.begin(4);
  CHECK(buffer.field("tokens").shape() == Shape{7, 4});
}

TEST_CASE(
    "a loader serves any source: shapes and weights of each batch, position, epochs of their own length",
    "[batch][loader]") {
  const auto source = std::make_shared<Buckets>();
  Loader reference(source);
  const auto first = epoch_of(reference), second = epoch_of(reference);
  CHECK(first.size() == 5);
  CHECK(second.size() == 4);
  CHECK(first[1].size() == 3 * 4 + 3 + 1);
  CHECK(first[1].back() == 12);
  for (const int threads : {1, 3}) {
    Loader loader(source, {.threads = threads});
    CHECK(epoch_of(loader) == first);
    CHECK(epoch_of(loader) == second);
    loader.seek({0, 5});
    CHECK(loader.batches_served() == 2);
    CHECK(loader.samples_per_epoch() == 12);
    CHECK((*loader.next())["tokens"].size(0) == 5);
    CHECK(loader.state() == LoaderState{0, 7});
    loader.seek({1, 9});  // between two batches of the second epoch: with the one that begins later
    CHECK(loader.state() == LoaderState{1, 10});
    CHECK_FALSE(loader.next());
    CHECK_THROWS_WITH(loader.seek({1, 11}), Contains("position 11") && Contains("10 samples"));
  }
}
