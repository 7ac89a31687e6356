#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "core/error.h"
#include "data/decorators.h"
#include "data/synthetic.h"
#include "tests/support/limited_threads.h"

using namespace tandem;
using namespace tandem::datasets;
using Catch::Contains;

namespace {

const std::vector<TransformSpec> kAugment = {
    {"random_crop", {}}, {"horizontal_flip", {}}, {"color_jitter", {}}, {"cutout", {}}};

DatasetPtr patterns(Index count = 103) {
  return make_synthetic({.count = count, .classes = 5, .height = 12, .width = 10, .channels = 3});
}

// Everything a batch says, as bytes.
std::string bytes_of(const Batch& batch) {
  std::string result;
  for (const Tensor& tensor : {batch["image"], batch["label"], batch["index"]}) {
    result.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  return result;
}

std::vector<std::string> epoch_of(Loader& loader) {
  std::vector<std::string> batches;
  while (const auto batch = loader.next()) batches.push_back(bytes_of(*batch));
  return batches;
}

Loader make_loader(const DatasetPtr& set, LoaderOptions options) {
  return Loader(set, Pipeline(set->info(), kAugment), options);
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

  mutable std::atomic<int> asked{0};
  std::atomic<bool> repaired{false};

 private:
  DatasetPtr source_;
  std::set<Index> bad_;
};

}  // namespace

TEST_CASE("every number of threads gives the same batches, bit for bit", "[loader]") {
  const DatasetPtr set = patterns();
  const bool drop_last = GENERATE(false, true);
  LoaderOptions options{.batch_size = 16, .shuffle = true, .drop_last = drop_last, .seed = 11};
  Loader reference = make_loader(set, options);
  const std::vector<std::string> first = epoch_of(reference), second = epoch_of(reference);
  CHECK(first.size() == (drop_last ? 6 : 7));
  CHECK(static_cast<Index>(first.size()) == reference.batches_per_epoch());
  CHECK(first != second);
  for (const int threads : {1, 2, 4}) {
    for (const int prefetch : {0, 3}) {
      options.threads = threads;
      options.prefetch = prefetch;
      Loader loader = make_loader(set, options);
      CHECK(epoch_of(loader) == first);
      CHECK(epoch_of(loader) == second);
    }
  }
  options.seed = 12;
  Loader other = make_loader(set, options);
  CHECK(epoch_of(other) != first);
}

TEST_CASE("drop_last leaves out a batch that is not full, and no other", "[loader]") {
  const int threads = GENERATE(0, 2);
  for (const Index count : {31, 32, 33, 47, 48, 49}) {
    LoaderOptions options{.batch_size = 16, .shuffle = true, .drop_last = true, .threads = threads};
    Loader loader = make_loader(patterns(count), options);
    CHECK(loader.batches_per_epoch() == count / 16);
    CHECK(loader.samples_per_epoch() == count / 16 * 16);
    for (const std::uint32_t epoch : {0U, 1U}) {
      std::set<std::int64_t> samples;
      Index batches = 0;
      while (const auto batch = loader.next()) {
        ++batches;
        CHECK(batch->samples == 16);
        samples.merge(std::set<std::int64_t>((*batch)["index"].data<std::int64_t>(),
                                             (*batch)["index"].data<std::int64_t>() + batch->samples));
      }
      CHECK(batches == count / 16);
      CHECK(static_cast<Index>(samples.size()) == count / 16 * 16);
      CHECK(loader.state() == LoaderState{epoch + 1, 0});
    }
    loader.seek({0, count / 16 * 16});
    CHECK_FALSE(loader.next());
    loader.seek({0, (count / 16 - 1) * 16});
    CHECK(loader.next());
    CHECK_FALSE(loader.next());
    options.drop_last = false;
    CHECK(make_loader(patterns(count), options).batches_per_epoch() == (count + 15) / 16);
  }
}

TEST_CASE("a batch holds the samples it names, normalised", "[loader]") {
  const auto set = make_synthetic({.count = 20, .classes = 3, .height = 4, .width = 5, .channels = 2});
  Loader loader(set, Pipeline(set->info()), {.batch_size = 8, .shuffle = true, .seed = 2});
  std::vector<std::int64_t> seen;
  for (const Batch& batch : loader) {
    const auto indices = batch["index"].to_vector<std::int64_t>(),
               labels = batch["label"].to_vector<std::int64_t>();
    const auto images = batch["image"].to_vector<float>();
    REQUIRE(batch["image"].shape() == Shape{batch.samples, 4, 5, 2});
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const Sample sample = set->get(indices[i]);
      CHECK(labels[i] == sample.label);
      const auto pixels = sample.image.to_vector<float>();
      for (std::size_t p = 0; p < 40; ++p) REQUIRE(images[i * 40 + p] == Approx(pixels[p] / 255));
    }
    seen.insert(seen.end(), indices.begin(), indices.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  CHECK(seen == all);

  // Each is transformed by draws of its own.
  const Pipeline augmented(set->info(), kAugment);
  Loader drawn(set, Pipeline(set->info(), kAugment), {.batch_size = 8, .shuffle = true, .seed = 2});
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : drawn) {
      const auto indices = batch["index"].to_vector<std::int64_t>();
      const auto images = batch["image"].to_vector<float>();
      for (std::size_t i = 0; i < indices.size(); ++i) {
        std::vector<float> alone(40);
        const auto sample = static_cast<std::uint32_t>(indices[i]);
        augmented.apply(set->get(indices[i]).image, {.seed = 2, .epoch = epoch, .sample = sample},
                        alone.data());
        CHECK(std::equal(alone.begin(), alone.end(), images.begin() + static_cast<std::ptrdiff_t>(i * 40)));
      }
    }
  }

  Loader ordered(set, Pipeline(set->info()), {.batch_size = 6});
  std::vector<std::int64_t> order;
  for (const Batch& batch : ordered) {
    const auto indices = batch["index"].to_vector<std::int64_t>();
    order.insert(order.end(), indices.begin(), indices.end());
  }
  CHECK(order == all);
}

TEST_CASE("a loader continues anywhere in an epoch", "[loader]") {
  const DatasetPtr set = patterns();
  const int threads = GENERATE(0, 2);
  const LoaderOptions options{.batch_size = 10, .shuffle = true, .threads = threads, .seed = 6};
  Loader whole = make_loader(set, options);
  std::vector<std::string> batches;
  std::vector<LoaderState> states;
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (true) {
      states.push_back(whole.state());
      const auto batch = whole.next();
      batches.push_back(batch ? bytes_of(*batch) : "end");
      if (!batch) break;
    }
  }
  CHECK(whole.state() == LoaderState{3, 0});
  for (std::size_t i = 0; i < states.size(); ++i) {
    Loader resumed = make_loader(set, options);
    resumed.seek(states[i]);
    CHECK(resumed.state() == states[i]);
    for (std::size_t k = i; k < std::min(i + 3, batches.size()); ++k) {
      const auto batch = resumed.next();
      if (batch) CHECK(batch->first == states[k].position);
      CHECK((batch ? bytes_of(*batch) : "end") == batches[k]);
    }
  }
  // Back and forth with batches in flight.
  whole.seek(states[20]);
  whole.next();
  whole.seek(states[2]);
  CHECK(bytes_of(*whole.next()) == batches[2]);
  CHECK_THROWS_WITH(whole.seek({0, 104}), Contains("position 104") && Contains("103 samples"));
}

TEST_CASE("a failing sample throws in place of its batch", "[loader]") {
  const auto faulty = std::make_shared<Faulty>(patterns(), std::set<Index>{37, 33, 90});
  const int threads = GENERATE(0, 1, 4);
  Loader loader(faulty, Pipeline(faulty->info(), kAugment), {.batch_size = 10, .threads = threads});
  for (int i = 0; i < 3; ++i) REQUIRE(loader.next());
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH(loader.next(), Contains("sample 33 is broken"));  // the first of the batch
    CHECK(loader.state() == LoaderState{0, 30});
  }
  faulty->repaired = true;
  Loader reference = make_loader(patterns(), {.batch_size = 10});
  reference.seek({0, 30});
  while (const auto batch = loader.next()) CHECK(bytes_of(*batch) == bytes_of(*reference.next()));
  CHECK(loader.state() == LoaderState{1, 0});
}

TEST_CASE("a thread that cannot be started is an error with the way out", "[loader]") {
  // Room for the stacks of two threads.
  const test::LimitedThreads limited(2);
  Loader loader = make_loader(patterns(), {.batch_size = 10, .threads = 4});
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH(loader.next(), Contains("[loader] thread ") &&
                                         Contains(" of 4 could not be started: ") &&
                                         Contains("smaller data.workers"));
    CHECK(loader.state() == LoaderState{0, 0});
  }
  limited.lift();
  Loader reference = make_loader(patterns(), {.batch_size = 10});
  CHECK(epoch_of(loader) == epoch_of(reference));
}

TEST_CASE("prefetching is bounded and ends cleanly at any moment", "[loader]") {
  const auto counted = std::make_shared<Faulty>(patterns(1000), std::set<Index>{});
  // Waits until that many samples were asked for, then a while longer for any beyond the bound.
  const auto stops_at = [&](int count) {
    while (counted->asked < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return counted->asked == count;
  };
  {
    Loader loader(counted, Pipeline(counted->info()), {.batch_size = 10, .threads = 3, .prefetch = 2});
    CHECK(counted->asked == 0);
    loader.next();
    CHECK(stops_at(60));  // one taken, three threads and two ahead
    loader.next();
    CHECK(stops_at(70));
    Loader moved = std::move(loader);
    moved.next();
    CHECK(stops_at(80));
  }
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader(counted, Pipeline(counted->info()), {.batch_size = 7, .threads = 4, .prefetch = 1});
    for (int i = 0; i < taken; ++i) REQUIRE(loader.next());
  }
}

TEST_CASE("batches use their memory again once nobody holds it", "[loader]") {
  const DatasetPtr set = patterns(400);
  const int threads = GENERATE(0, 2);
  Loader loader = make_loader(set, {.batch_size = 16, .shuffle = true, .threads = threads, .prefetch = 1});
  epoch_of(loader);
  const MemoryFigures before = host_allocator().figures();
  for (int epoch = 0; epoch < 3; ++epoch) epoch_of(loader);
  const MemoryFigures after = host_allocator().figures();
  CHECK(after.system_requests == before.system_requests);
  CHECK(after.live == before.live);

  // What is held stays as it was.
  loader.seek({0, 0});
  const auto held = loader.next();
  const std::string contents = bytes_of(*held);
  const std::uint64_t version = (*held)["image"].version();
  epoch_of(loader);
  CHECK(bytes_of(*held) == contents);
  CHECK((*held)["image"].version() == version);
}

TEST_CASE("an impossible loader is refused", "[loader]") {
  const DatasetPtr set = patterns(5);
  const auto make = [&](LoaderOptions options) { return Loader(set, Pipeline(set->info()), options); };
  CHECK_THROWS_WITH(make({.batch_size = 0}), Contains("batch size of 0"));
  CHECK_THROWS_WITH(make({.threads = -1}), Contains("-1 threads"));
  CHECK_THROWS_WITH(make({.prefetch = -1}), Contains("prefetch is -1"));
  CHECK_THROWS_WITH(make({.batch_size = 6, .drop_last = true}),
                    Contains("5 samples") && Contains("drop_last"));
  CHECK(make({.batch_size = 6}).next()->samples == 5);
}

TEST_CASE("permutations are permutations, different for each seed and epoch", "[loader]") {
  for (const Index count : {1, 2, 3, 1000}) {
    std::vector<std::uint32_t> order = permutation(count, 1, 0);
    std::sort(order.begin(), order.end());
    for (Index i = 0; i < count; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  }
  CHECK(permutation(0, 1, 0).empty());
  CHECK(permutation(100, 1, 0) == permutation(100, 1, 0));
  CHECK(permutation(100, 1, 0) != permutation(100, 1, 1));
  CHECK(permutation(100, 1, 0) != permutation(100, 2, 0));
  // Every sample comes first about equally often: 24 orders of 4, 2400 draws.
  std::map<std::vector<std::uint32_t>, int> counts;
  for (std::uint32_t epoch = 0; epoch < 2400; ++epoch) ++counts[permutation(4, 9, epoch)];
  CHECK(counts.size() == 24);
  for (const auto& [order, count] : counts) CHECK((count > 60 && count < 140));
}
