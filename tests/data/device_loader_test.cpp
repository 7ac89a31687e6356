// Batches that a loader copies to the device under test, against those it makes on the host. On the CPU, a
// 16-bit type uses the same path.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "core/backend.h"
#include "core/convert.h"
#include "core/error.h"
#include "data/loader.h"
#include "data/synthetic.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::datasets;
using Catch::Contains;

namespace {

const std::vector<TransformSpec> kWindows = {{"random_crop", {{"padding", {2}}}}, {"horizontal_flip", {}}};

// A way of preparing samples, and whether records or values travel.
struct Case {
  std::string name;
  DatasetPtr set;
  std::vector<TransformSpec> specs;
  bool records;
};

DatasetPtr patterns(Index count = 43) {
  return make_synthetic({.count = count, .classes = 5, .height = 12, .width = 10, .channels = 3});
}

DatasetPtr in_memory(const Shape& shape, DType dtype) {
  const double highest = dtype == DType::u8 ? 255 : 1;
  const Tensor images = test::random_tensor(shape, dtype, 3, 0, highest).to(Device{});
  std::vector<std::int64_t> labels;
  for (Index i = 0; i < images.size(0); ++i) labels.push_back(i % 3);
  DatasetInfo info{.name = "samples"};
  info.statistics = {{0.4F}, {0.3F}};
  return std::make_shared<InMemoryDataset>(images, Tensor::from(labels, {images.size(0)}), info, "samples");
}

std::vector<Case> cases() {
  const DatasetPtr set = patterns();
  return {
      {"windows", set, kWindows, true},
      {"smaller windows", set, {{"center_crop", {{"size", {8}}}}, {"vertical_flip", {}}}, true},
      {"8-bit features", in_memory({43, 17}, DType::u8), {}, true},
      {"resampled", set, {{"random_resized_crop", {{"size", {6}}}}}, false},
      {"coloured", set, {{"random_crop", {}}, {"color_jitter", {}}, {"cutout", {}}}, false},
      {"mixed", set, {{"random_crop", {}}, {"mixup", {}}}, false},
      {"values", in_memory({43, 5, 4, 3}, DType::f32), kWindows, false},
      {"features", in_memory({43, 17}, DType::f32), {}, false},
  };
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Everything a batch says, as bytes; images as `options` ask for them. A batch of f32 images
// may be made into one of any other kind.
std::string bytes_of(const Batch& batch, const LoaderOptions& options) {
  std::string bytes;
  const Batch host = batch.to(Device{});
  backend_for(batch["label"].device()).synchronize();
  visit_floating(options.dtype, [&]<class To>(TypeTag<To>) {
    visit_floating(host["image"].dtype(), [&]<class From>(TypeTag<From>) {
      const From* values = host["image"].data<From>();
      for (Index i = 0; i < host["image"].numel(); ++i) append(bytes, convert<To>(values[i]));
    });
  });
  for (const Tensor& tensor : {host["label"], host.find("index"), host.find("soft_label")}) {
    if (tensor.defined()) bytes.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  return bytes;
}

// The rest of the epoch.
std::vector<std::string> epoch_of(Loader& loader, const LoaderOptions& options) {
  std::vector<std::string> batches;
  while (const auto batch = loader.next()) {
    const SampleOptions& asked = dynamic_cast<const SampleSource&>(loader.source()).options();
    REQUIRE((*batch)["image"].device() == asked.device);
    REQUIRE((*batch)["image"].dtype() == asked.dtype);
    batches.push_back(bytes_of(*batch, options));
  }
  return batches;
}

Loader make_loader(const DatasetPtr& set, const std::vector<TransformSpec>& specs, LoaderOptions options) {
  return Loader(set, Pipeline(set->info(), specs), options);
}

LoaderOptions on_host(LoaderOptions options) {
  options.device = {};
  options.dtype = DType::f32;
  options.threads = 0;
  return options;
}

// Fails at the given samples; counts what was asked for.
class Faulty final : public Dataset {
 public:
  Faulty(DatasetPtr source, std::set<Index> bad) : source_(std::move(source)), bad_(std::move(bad)) {
    info_ = source_->info();
  }
  Index size() const override { return source_->size(); }
  Sample get(Index index) const override {
    ++asked;
    require(!bad_.contains(index) || repaired, "faulty", "sample {} is broken", index);
    return source_->get(index);
  }
  // Whether that many samples come to be asked for, and no more.
  bool stops_at(int count) const {
    for (int waits = 0; asked < count && waits < 20000; ++waits) pause(1);
    pause(50);
    return asked == count;
  }
  static void pause(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

  mutable std::atomic<int> asked{0};
  std::atomic<bool> repaired{false};

 private:
  DatasetPtr source_;
  std::set<Index> bad_;
};

}  // namespace

TEST_CASE("batches on a device are those of the host, rounded", "[device_loader]") {
  const Device device = test::test_device();
  for (const Case& c : cases()) {
    const Pipeline pipeline(c.set->info(), c.specs);
    CHECK(pipeline.takes_windows() == c.records);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const LoaderOptions options{.batch_size = 8,
                                  .shuffle = true,
                                  .threads = dtype == DType::f16 ? 0 : 2,
                                  .seed = 5,
                                  .device = device,
                                  .dtype = dtype};
      CAPTURE(c.name, name_of(dtype));
      Loader loader = make_loader(c.set, c.specs, options);
      Loader host = make_loader(c.set, c.specs, on_host(options));
      // Twice: the second time in memory that was used before.
      for (int epoch = 0; epoch < 2; ++epoch) {
        const auto batches = epoch_of(loader, {.dtype = dtype});
        CHECK(batches.size() == 6);
        CHECK((batches == epoch_of(host, options)));
      }
    }
  }
}

TEST_CASE("memory is used again only when the device is done with it", "[device_loader]") {
  const Device device = test::test_device();
  const int threads = GENERATE(0, 2);
  for (const Case& c : cases()) {
    const LoaderOptions options{.batch_size = 4,
                                .shuffle = true,
                                .threads = threads,
                                .seed = 5,
                                .device = device,
                                .dtype = DType::f16};
    CAPTURE(c.name, threads);
    Loader loader = make_loader(c.set, c.specs, options);
    Loader host = make_loader(c.set, c.specs, on_host(options));
    // The device falls behind: nothing here waits for it before the epoch has been served.
    std::vector<Batch> copies;
    while (const auto batch = loader.next()) {
      copies.push_back(*batch);
      for (const Field& field : batch->fields()) copies.back().set(field.name, field.value.clone());
    }
    CHECK(copies.size() == 11);
    for (const Batch& copy : copies) CHECK((bytes_of(copy, options) == bytes_of(*host.next(), options)));
  }
}

TEST_CASE("a loader on a device continues anywhere in an epoch", "[device_loader]") {
  const DatasetPtr set = patterns();
  const int threads = GENERATE(0, 2);
  const Device device = test::test_device();
  const LoaderOptions options{.batch_size = 10,
                              .shuffle = true,
                              .threads = threads,
                              .seed = 6,
                              .device = device,
                              .dtype = DType::bf16};
  Loader host = make_loader(set, kWindows, on_host(options));
  std::vector<std::string> batches;
  std::vector<LoaderState> states;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (true) {
      states.push_back(host.state());
      const auto batch = host.next();
      batches.push_back(batch ? bytes_of(*batch, options) : "end");
      if (!batch) break;
    }
  }
  Loader loader = make_loader(set, kWindows, options);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::size_t at = i * 5 % states.size();
    loader.seek(states[at]);
    for (std::size_t k = at; k < std::min(at + 3, states.size()); ++k) {
      CHECK(loader.state() == states[k]);
      const auto batch = loader.next();
      if (batch) CHECK(batch->first == states[k].position);
      CHECK(((batch ? bytes_of(*batch, options) : "end") == batches[k]));
    }
  }
}

TEST_CASE("a batch is sent ahead when it is ready, and an error waits for its own call", "[device_loader]") {
  const Device device = test::test_device();
  const auto faulty = std::make_shared<Faulty>(patterns(100), std::set<Index>{33, 37});
  const LoaderOptions options{
      .batch_size = 10, .threads = 3, .prefetch = 2, .device = device, .dtype = DType::f16};
  Loader loader = make_loader(faulty, kWindows, options);
  Loader host = make_loader(patterns(100), kWindows, on_host(options));
  const auto matches = [&] {
    const auto batch = loader.next();
    return batch && bytes_of(*batch, options) == bytes_of(*host.next(), options);
  };
  CHECK(matches());
  // Until the third batch is surely ready, whether or not the second one was sent ahead.
  while (faulty->asked < 60) Faulty::pause(1);
  Faulty::pause(100);
  CHECK(matches());
  CHECK(loader.state() == LoaderState{0, 20});
  // Two served, the third sent ahead, and five in the making or made, of which the first has failed.
  CHECK(faulty->stops_at(80));
  CHECK(matches());
  CHECK(loader.state() == LoaderState{0, 30});
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH(loader.next(), Contains("sample 33 is broken"));
    CHECK(loader.state() == LoaderState{0, 30});
  }
  faulty->repaired = true;
  for (int i = 3; i < 10; ++i) CHECK(matches());
  CHECK_FALSE(loader.next());
  CHECK(loader.state() == LoaderState{1, 0});
}

TEST_CASE("batches on a device use their memory again once nobody holds it", "[device_loader]") {
  const DatasetPtr set = patterns(160);
  const int threads = GENERATE(0, 2);
  const bool records = GENERATE(false, true);
  const Device device = test::test_device();
  const LoaderOptions options{.batch_size = 16,
                              .shuffle = true,
                              .threads = threads,
                              .prefetch = 1,
                              .device = device,
                              .dtype = DType::bf16};
  Loader loader = make_loader(set, records ? kWindows : std::vector<TransformSpec>{{"cutout", {}}}, options);
  Backend& backend = backend_for(device);
  const auto run = [&] {
    // As a training loop: a batch is dropped before the next one is asked for.
    while (loader.next()) {
    }
    backend.synchronize();
  };
  run();
  const auto requests = [&] {
    return backend.allocator().figures().system_requests +
           backend.transfer_allocator().figures().system_requests;
  };
  const std::uint64_t asked = requests();
  const std::size_t live = backend.allocator().figures().live;
  for (int epoch = 0; epoch < 3; ++epoch) run();
  CHECK(requests() == asked);
  CHECK(backend.allocator().figures().live == live);

  // What is held stays as it was.
  loader.seek({0, 0});
  const auto held = loader.next();
  const std::string contents = bytes_of(*held, options);
  const std::uint64_t version = (*held)["image"].version();
  run();
  CHECK((bytes_of(*held, options) == contents));
  CHECK((*held)["image"].version() == version);
}

TEST_CASE("a batch made by hand goes to a device and back", "[device_loader]") {
  const Device device = test::test_device();
  const Batch batch(
      {{"image", test::random_tensor({3, 2, 2, 1})}, {"label", Tensor::from<std::int64_t>({2, 0, 1}, {3})}},
      3);
  const Batch there = batch.to(device);
  CHECK(there["image"].device() == device);
  CHECK(there["label"].device() == device);
  CHECK_FALSE(there.find("index").defined());
  CHECK(there.samples == 3);
  CHECK((bytes_of(there, {}) == bytes_of(batch, {})));
}

TEST_CASE("a loader refuses what no device can be given", "[device_loader]") {
  const DatasetPtr set = patterns();
  const auto make = [](const DatasetPtr& from, LoaderOptions options) { make_loader(from, {}, options); };
  CHECK_THROWS_WITH(make(set, {.dtype = DType::i32}), Contains("i32") && Contains("floating"));
  CHECK_THROWS_WITH(make(set, {.device = {DeviceType::cuda, 100}}), Contains("cuda:100 is not available"));
}
