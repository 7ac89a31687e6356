#include "data/transforms/mix.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/parallel.h"
#include "core/error.h"

namespace tandem::datasets {

MixOptions mix_options(std::span<const TransformSpec> specs) {
  MixOptions options;
  for (const TransformSpec& spec : specs) {
    const TransformInfo& info = transform_info(spec.name);
    if (info.stage != TransformStage::batch) continue;
    const options::Record parameters = parameters_of(info, spec);
    auto& method = info.name == "mixup" ? options.mixup : options.cutmix;
    require(!method, info.name, "is given twice");
    method = *static_cast<const MixOptions::Method*>(parameters.data());
  }
  return options;
}

namespace {

// Share of its own that a sample keeps: `share` of each pixel, or all but `paste`.
struct Choice {
  double share = 1;
  bool cut = false;
  Rect paste;
};

Choice choose(const MixArguments& arguments, std::uint32_t sample) {
  RandomStream random(
      {.seed = arguments.seed, .purpose = RandomPurpose::mixing, .call = sample, .step = arguments.epoch});
  const MixOptions& options = arguments.options;
  Choice choice;
  choice.cut = options.cutmix && (!options.mixup || random.uniform() < 0.5F);
  const MixOptions::Method& method = choice.cut ? *options.cutmix : *options.mixup;
  if (random.uniform() >= method.probability) return Choice{};
  choice.share = random.beta(method.alpha, method.alpha);
  if (!std::isfinite(choice.share)) choice.share = 1;  // both gamma draws underflowed (alpha near 0)
  if (!choice.cut) return choice;
  const auto [height, width] = arguments.extents;
  const double side = std::sqrt(1.0 - choice.share);
  const Index cut_height = static_cast<Index>(static_cast<double>(height) * side);
  const Index cut_width = static_cast<Index>(static_cast<double>(width) * side);
  const Index y = random.below(static_cast<std::uint32_t>(height));
  const Index x = random.below(static_cast<std::uint32_t>(width));
  const Index top = std::clamp<Index>(y - cut_height / 2, 0, height);
  const Index bottom = std::clamp<Index>(y - cut_height / 2 + cut_height, 0, height);
  const Index left = std::clamp<Index>(x - cut_width / 2, 0, width);
  const Index right = std::clamp<Index>(x - cut_width / 2 + cut_width, 0, width);
  choice.paste = {top, left, bottom - top, right - left};
  choice.share = 1.0 - static_cast<double>(choice.paste.height * choice.paste.width) /
                           static_cast<double>(height * width);
  return choice;
}

// Mixes `other` into `image` by `choice`; the two do not overlap.
void mix_into(float* image, const float* other, const Choice& choice, const MixArguments& arguments) {
  const Index channels = arguments.channels, width = arguments.extents.width;
  if (choice.cut) {
    const Rect& paste = choice.paste;
    for (Index y = paste.top; y < paste.bottom(); ++y) {
      const Index at = (y * width + paste.left) * channels;
      std::copy_n(other + at, paste.width * channels, image + at);
    }
    return;
  }
  if (choice.share == 1) return;
  const auto share = static_cast<float>(choice.share), rest = static_cast<float>(1.0 - choice.share);
  const Index count = arguments.extents.height * width * channels;
  for (Index i = 0; i < count; ++i) image[i] = share * image[i] + rest * other[i];
}

void write_target(const Choice& choice, std::int64_t own, std::int64_t other, std::span<float> target) {
  std::ranges::fill(target, 0.0F);
  target[static_cast<std::size_t>(own)] += static_cast<float>(choice.share);
  target[static_cast<std::size_t>(other)] += static_cast<float>(1.0 - choice.share);
}

void mix_pair(const MixArguments& arguments, Index first, Index second, float* images, float* targets) {
  thread_local std::vector<float> unmixed;
  const Index size = arguments.extents.height * arguments.extents.width * arguments.channels;
  float* a = images + first * size;
  float* b = images + second * size;
  const Choice choice_a = choose(arguments, arguments.samples[first]);
  const Choice choice_b = choose(arguments, arguments.samples[second]);
  const auto target = [&](Index position) {
    return std::span<float>(targets + position * arguments.classes,
                            static_cast<std::size_t>(arguments.classes));
  };
  const std::int64_t label_a = arguments.labels[first], label_b = arguments.labels[second];
  if (first != second) {
    unmixed.assign(a, a + size);
    mix_into(a, b, choice_a, arguments);
    mix_into(b, unmixed.data(), choice_b, arguments);
    write_target(choice_b, label_b, label_a, target(second));
  }
  write_target(first != second ? choice_a : Choice{}, label_a, label_b, target(first));
}

}  // namespace

void mix_batch(const MixArguments& arguments, float* images, float* targets) {
  const auto count = static_cast<Index>(arguments.samples.size());
  cpu::parallel_for(arguments.parallel, (count + 1) / 2,
                    [&](Index i) { mix_pair(arguments, i, count - 1 - i, images, targets); });
}

}  // namespace tandem::datasets
