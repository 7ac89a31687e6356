#include "data/transforms/mix.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "data/decorators.h"
#include "data/loader.h"
#include "data/synthetic.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

struct Mixed {
  std::vector<float> before, after, targets;
  std::vector<std::int64_t> labels;
};

// A batch of `count` 4×6 images, sample i constant i + channel/10, mixed.
Mixed mix(const MixOptions& options, Index count, std::uint32_t epoch, bool parallel = true) {
  const Index height = 4, width = 6, channels = 2, classes = 5;
  Mixed result;
  std::vector<std::uint32_t> samples;
  for (Index i = 0; i < count; ++i) {
    samples.push_back(static_cast<std::uint32_t>(1000 + 7 * i));
    result.labels.push_back((i * 2) % classes);
    for (Index p = 0; p < height * width; ++p) {
      for (Index c = 0; c < channels; ++c)
        result.before.push_back(static_cast<float>(i) + 0.1F * static_cast<float>(c));
    }
  }
  result.after = result.before;
  result.targets.assign(static_cast<std::size_t>(count * classes), -1.0F);
  mix_batch({.options = options,
             .seed = 3,
             .epoch = epoch,
             .samples = samples,
             .labels = result.labels,
             .extents = {height, width},
             .channels = channels,
             .classes = classes,
             .parallel = parallel},
            result.after.data(), result.targets.data());
  return result;
}

}  // namespace

TEST_CASE("mixup blends pairs and their targets by the same share", "[mix]") {
  const MixOptions options{.mixup = MixOptions::Method{0.8, 1.0}, .cutmix = {}};
  double shares = 0;
  int count = 0;
  for (std::uint32_t epoch = 0; epoch < 60; ++epoch) {
    const Index n = 7;
    const Mixed mixed = mix(options, n, epoch);
    for (Index i = 0; i < n; ++i) {
      const Index partner = n - 1 - i;
      const std::span<const float> target(mixed.targets.data() + i * 5, 5);
      CHECK(std::accumulate(target.begin(), target.end(), 0.0F) == Approx(1));
      const auto own = static_cast<std::size_t>(mixed.labels[static_cast<std::size_t>(i)]);
      const auto other = static_cast<std::size_t>(mixed.labels[static_cast<std::size_t>(partner)]);
      if (own == other) continue;
      const float share = target[own];
      CHECK(target[other] == Approx(1 - share).margin(1e-6));
      shares += share;
      ++count;
      for (Index p = 0; p < 48; ++p) {
        const auto at = static_cast<std::size_t>(i * 48 + p),
                   from = static_cast<std::size_t>(partner * 48 + p);
        REQUIRE(mixed.after[at] ==
                Approx(share * mixed.before[at] + (1 - share) * mixed.before[from]).margin(1e-5));
      }
    }
  }
  // Beta(0.8, 0.8): mean 1/2, variance 1/(4·2.6).
  CHECK(shares / count == Approx(0.5).margin(4 * std::sqrt(1 / (4 * 2.6) / count)));
}

TEST_CASE("CutMix pastes one rectangle, and the targets are its area", "[mix]") {
  const MixOptions options{.mixup = {}, .cutmix = MixOptions::Method{1.0, 1.0}};
  int pasted = 0;
  for (std::uint32_t epoch = 0; epoch < 60; ++epoch) {
    const Index n = 6;
    const Mixed mixed = mix(options, n, epoch);
    for (Index i = 0; i < n; ++i) {
      Index top = 4, bottom = -1, left = 6, right = -1, taken = 0;
      for (Index y = 0; y < 4; ++y) {
        for (Index x = 0; x < 6; ++x) {
          const float value = mixed.after[static_cast<std::size_t>((i * 24 + y * 6 + x) * 2)];
          REQUIRE((value == static_cast<float>(i) || value == static_cast<float>(n - 1 - i)));
          if (value == static_cast<float>(i)) continue;
          top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x),
          right = std::max(right, x);
          ++taken;
        }
      }
      if (taken > 0) CHECK(taken == (bottom - top + 1) * (right - left + 1));
      pasted += taken > 0;
      const auto own = static_cast<std::size_t>(mixed.labels[static_cast<std::size_t>(i)]);
      const auto other = static_cast<std::size_t>(mixed.labels[static_cast<std::size_t>(n - 1 - i)]);
      if (own != other) {
        CHECK(mixed.targets[static_cast<std::size_t>(i) * 5 + own] ==
              Approx(1 - static_cast<double>(taken) / 24));
      }
    }
  }
  CHECK(pasted > 180);
}

TEST_CASE("both methods share the samples, and probability leaves some alone", "[mix]") {
  const MixOptions options{.mixup = MixOptions::Method{1, 1}, .cutmix = MixOptions::Method{1, 0}};
  int untouched = 0, blended = 0;
  for (std::uint32_t epoch = 0; epoch < 50; ++epoch) {
    const Mixed mixed = mix(options, 8, epoch);
    CHECK(mixed.after == mix(options, 8, epoch, false).after);
    CHECK(mixed.targets == mix(options, 8, epoch, false).targets);
    for (Index i = 0; i < 8; ++i) {
      (mixed.after[static_cast<std::size_t>(i * 48)] == mixed.before[static_cast<std::size_t>(i * 48)]
           ? untouched
           : blended)++;
    }
  }
  CHECK((untouched > 140 && blended > 140));
}

TEST_CASE("the loader mixes reproducibly and gives soft targets", "[mix][loader]") {
  const auto set = make_synthetic({.count = 50, .classes = 4, .height = 8, .width = 8});
  const std::vector<TransformSpec> specs = {{"mixup", {}}, {"cutmix", {}}};
  std::vector<std::vector<float>> runs;
  for (const int threads : {0, 2}) {
    Loader loader(set, Pipeline(set->info(), specs),
                  {.batch_size = 16, .shuffle = true, .threads = threads, .seed = 4});
    std::vector<float> all;
    for (const Batch& batch : loader) {
      REQUIRE(batch.find("soft_label").shape() == Shape{batch.samples, 4});
      for (const Tensor& tensor : {batch["image"], batch.find("soft_label")}) {
        const auto values = tensor.to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    runs.push_back(std::move(all));
  }
  CHECK(runs[0] == runs[1]);
  Loader plain(set, Pipeline(set->info()), {.batch_size = 16});
  CHECK_FALSE(plain.next()->find("soft_label").defined());
}
