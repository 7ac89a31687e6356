// Each random source in data/ draws different numbers for a different epoch, batch, sample or seed, and equal
// ones for equal keys. Each test changes one part of a key, to find sources that ignore it; other tests check
// the quality of the numbers.
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <vector>

#include "core/random.h"
#include "data/decorators.h"
#include "data/text/candidate_source.h"
#include "data/text/length_buckets.h"
#include "data/text/stream_source.h"
#include "data/transforms/pipeline.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

using Values = std::vector<double>;

// Draws that must all differ, and be the same a second time.
void check_apart(const std::vector<std::function<Values()>>& draws) {
  std::set<Values> seen;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    CAPTURE(i);
    const Values drawn = draws[i]();
    CHECK(seen.insert(drawn).second);
    CHECK(draws[i]() == drawn);
  }
}

}  // namespace

TEST_CASE("the order of samples is another one in every epoch", "[drawn_anew]") {
  const auto order = [](std::uint64_t seed, std::uint32_t epoch) {
    return [=] {
      const auto drawn = permutation(60, seed, epoch);
      return Values(drawn.begin(), drawn.end());
    };
  };
  check_apart({order(1, 0), order(1, 1), order(1, 2), order(2, 0)});
}

// Sorted by length, the batches are the same in every epoch: what is drawn is their order alone.
TEST_CASE("the order of buckets is another one in every epoch", "[drawn_anew]") {
  std::vector<Index> lengths;
  for (Index i = 0; i < 60; ++i) lengths.push_back(i + 1);
  const auto order = [&](std::uint64_t seed, std::uint32_t epoch) {
    return [&, seed, epoch] {
      const BucketOrder plan =
          order_buckets(lengths, {.sentences = 2, .seed = seed, .grid = 1, .shard = 1000}, epoch);
      Values padded;
      for (const BucketOrder::Batch& batch : plan.batches)
        padded.push_back(static_cast<double>(batch.length));
      return padded;
    };
  };
  check_apart({order(1, 0), order(1, 1), order(1, 2), order(2, 0)});
}

TEST_CASE("the lengths of chunks are other ones in every epoch", "[drawn_anew]") {
  const auto ids = std::make_shared<const PackedIds>(std::vector<std::int32_t>(4000, 1));
  const auto chunks = [&](std::uint64_t seed, std::uint32_t epoch) {
    return [&, seed, epoch] {
      const StreamSource source(ids, {.streams = 1, .steps = 30, .random_lengths = true, .seed = seed});
      Values ends;
      for (Index k = 0; k < source.batches(epoch); ++k)
        ends.push_back(static_cast<double>(source.samples_before({epoch, k})));
      return ends;
    };
  };
  check_apart({chunks(1, 0), chunks(1, 1), chunks(1, 2), chunks(2, 0)});
}

TEST_CASE("the negatives of a sampled softmax are other ones for every batch and epoch", "[drawn_anew]") {
  const Tensor target = Tensor::from(std::vector<std::int64_t>{3, 4}, {2, 1});
  const auto drawn = [&](std::uint64_t seed, std::uint32_t epoch, Index number) {
    return [&, seed, epoch, number] {
      const auto fields =
          candidate_fields({.classes = 5000, .samples = 20, .seed = seed}, {epoch, number}, target);
      const auto ids = fields.front().value.to_vector<std::int64_t>();
      return Values(ids.begin(), ids.end());
    };
  };
  check_apart(
      {drawn(1, 0, 0), drawn(1, 1, 0), drawn(1, 2, 0), drawn(1, 0, 1), drawn(1, 0, 2), drawn(2, 0, 0)});
}

TEST_CASE("every random transform draws anew for every epoch and sample", "[drawn_anew]") {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 40 * 40 * 3; ++i) bytes.push_back(static_cast<std::uint8_t>((i * 37 + i / 7) % 251));
  const Tensor image = Tensor::from(bytes, {40, 40, 3});
  const DatasetInfo info{.name = "one", .dtype = DType::u8, .sample_shape = {40, 40, 3}, .classes = 2};
  const std::vector<TransformSpec> transforms = {
      {"random_resized_crop", {{"size", {24}}}},
      {"random_crop", {{"size", {24}}}},
      {"horizontal_flip", {}},
      {"photometric", {}},
  };
  for (const TransformSpec& spec : transforms) {
    CAPTURE(spec.name);
    const Pipeline pipeline(info, std::vector<TransformSpec>{spec});
    // Over several samples: one alone may be left as it is by chance.
    const auto drawn = [&](std::uint64_t seed, std::uint32_t epoch, std::uint32_t first) {
      return [&, seed, epoch, first] {
        Values all;
        std::vector<float> out(static_cast<std::size_t>(pipeline.output_shape().numel()));
        for (std::uint32_t sample = first; sample < first + 12; ++sample) {
          pipeline.apply(image, {.seed = seed, .epoch = epoch, .sample = sample}, out.data());
          all.insert(all.end(), out.begin(), out.end());
        }
        return all;
      };
    };
    check_apart({drawn(1, 0, 0), drawn(1, 1, 0), drawn(1, 2, 0), drawn(1, 0, 100), drawn(2, 0, 0)});
  }
}

TEST_CASE("mixing draws anew for every epoch and sample", "[drawn_anew]") {
  const MixOptions options{.mixup = MixOptions::Method{0.8, 1.0}, .cutmix = MixOptions::Method{1.0, 1.0}};
  const auto drawn = [&](std::uint64_t seed, std::uint32_t epoch, std::uint32_t first) {
    return [&, seed, epoch, first] {
      const std::vector<std::uint32_t> samples{first, first + 1};
      const std::vector<std::int64_t> labels{0, 1};
      std::vector<float> images(2 * 8 * 8), targets(4);
      for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i);
      mix_batch({.options = options,
                 .seed = seed,
                 .epoch = epoch,
                 .samples = samples,
                 .labels = labels,
                 .extents = {8, 8},
                 .channels = 1,
                 .classes = 2,
                 .parallel = false},
                images.data(), targets.data());
      return Values(images.begin(), images.end());
    };
  };
  check_apart({drawn(1, 0, 0), drawn(1, 1, 0), drawn(1, 2, 0), drawn(1, 0, 10), drawn(2, 0, 0)});
}
