#include "data/transforms/pipeline.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "data/transforms/parameters.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kMaxTransforms = 4096;  // a position in the list is 12 bits of a random key

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

[[noreturn]] void fail_shape(const Shape& shape, const Shape& expected, const DrawKey& key) {
  throw UserError("data", fmt::format("sample {} has shape {}, expected {} (0: any)", key.sample,
                                      to_string(shape), to_string(expected)));
}

float per_channel(const std::vector<float>& values, Index channel) {
  return values.size() == 1 ? values.front() : values[static_cast<std::size_t>(channel)];
}

// Composition of a list of transforms into one window for all draws. Padding after a crop does not compose:
// removed pixels must not return.
struct WindowUse {
  bool composable = true, moved = false;

  void add(WindowEffect effect) {
    if (effect == WindowEffect::beyond || (effect == WindowEffect::pads && moved)) composable = false;
    if (effect != WindowEffect::flips) moved = true;
  }
};

void finish(ImageWork& work, const SampleParts& to) {
  if (to.mask) work.finish_mask(to.mask);
  if (!to.boxes.empty()) work.finish_boxes(to.boxes);
}

}  // namespace

Pipeline::Pipeline(const DatasetInfo& info, std::span<const TransformSpec> specs)
    : is_image_(info.sample_shape.rank() == 3 && info.dtype != DType::i64),
      channels_(is_image_ ? info.sample_shape[2] : 1),
      unit_(info.dtype == DType::u8 ? 255.0F : 1.0F),
      input_(info.sample_shape),
      output_dtype_(batch_dtype(info)),
      classes_(info.classes),
      affine_(channels_),
      mix_(mix_options(specs)) {
  require(specs.size() < kMaxTransforms, "augment", "{} transforms, at most {} are possible", specs.size(),
          kMaxTransforms - 1);
  ChannelStatistics statistics = info.statistics;
  WindowUse use;
  Extents extents = is_image_ ? Extents{input_[0], input_[1]} : Extents{input_.numel(), 1};
  for (const TransformSpec& spec : specs) {
    const TransformInfo& transform = transform_info(spec.name);
    const options::Record parameters = parameters_of(transform, spec);
    if (transform.stage == TransformStage::final) {
      require(output_dtype_ == DType::f32, transform.name, "needs numbers; the samples of {} are indices",
              info.name);
      const auto& [mean, stddev] = *static_cast<const NormaliseOptions*>(parameters.data());
      if (!mean.values.empty()) statistics.mean = floats(mean.values);
      if (!stddev.values.empty()) statistics.stddev = floats(stddev.values);
    } else if (transform.stage == TransformStage::sample) {
      require(is_image_, transform.name, "needs images [H,W,C]; the samples of {} are {}", info.name,
              to_string(input_));
      transforms_.push_back(transform.make(parameters.data()));
      use.add(transforms_.back()->effect(extents));
      extents = transforms_.back()->output(extents);
    } else {
      require(is_image_, transform.name, "needs images [H,W,C]; the samples of {} are {}", info.name,
              to_string(input_));
    }
  }
  require(extents.known(), "augment",
          "the images of {} differ in size; add a resize with a center_crop, or a random_resized_crop, with "
          "a size",
          info.name);
  output_ = is_image_ ? Shape{extents.height, extents.width, channels_} : input_;
  takes_windows_ = info.dtype == DType::u8 && input_.numel() > 0 && use.composable && !mix_.any();
  require(!mix_.any() || classes_ > 0, "augment", "mixing needs classes, {} has none", info.name);
  require(!mix_.any() || (!info.masks && !info.boxes()), "augment",
          "mixing blends class labels of samples; the samples of {} have {}", info.name,
          info.masks ? "masks" : "boxes");
  set_normalisation(statistics);
}

void Pipeline::set_normalisation(const ChannelStatistics& statistics) {
  const auto fits = [&](const std::vector<float>& values) {
    return values.size() == 1 || static_cast<Index>(values.size()) == channels_;
  };
  require(fits(statistics.mean) && fits(statistics.stddev), "normalise",
          "{} means and {} standard deviations for images of {} channels", statistics.mean.size(),
          statistics.stddev.size(), channels_);
  mean_pixel_.resize(static_cast<std::size_t>(channels_));
  for (Index c = 0; c < channels_; ++c) {
    const float mean = per_channel(statistics.mean, c), stddev = per_channel(statistics.stddev, c);
    require(stddev > 0, "normalise", "the standard deviation of channel {} is {}, expected more than 0", c,
            stddev);
    affine_.scale[c] = 1.0F / (unit_ * stddev);
    affine_.offset[c] = -mean / stddev;
    mean_pixel_[c] = mean * unit_;
  }
}

void Pipeline::transform(const Sample& sample, const DrawKey& key, ImageWork& work) const {
  const Tensor& image = sample.image;
  if (!is_image_) {
    if (image.shape() != input_) fail_shape(image.shape(), input_, key);
    work.start(image.viewed(as_image(input_)), unit_, mean_pixel_);
    return;
  }
  if (image.rank() != 3 || image.shape()[2] != channels_) fail_shape(image.shape(), input_, key);
  work.start(image, unit_, mean_pixel_);
  if (sample.mask.defined()) {
    require(sample.mask.shape() == image.shape().without(2), "data",
            "sample {} has a mask of {} for an image of {}", key.sample, to_string(sample.mask.shape()),
            to_string(image.shape()));
    work.add_mask(sample.mask);
  }
  work.add_objects(sample.objects);
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    RandomStream random({.seed = key.seed,
                         .purpose = RandomPurpose::augmentation,
                         .call = key.sample,
                         .step = key.epoch,
                         .micro_batch = static_cast<std::uint32_t>(i)});
    transforms_[i]->apply(work, random);
  }
  require(work.height() == output_[0] && work.width() == output_[1], "data",
          "sample {} became {}x{} pixels, expected {}x{}", key.sample, work.height(), work.width(),
          output_[0], output_[1]);
}

void Pipeline::apply(const Sample& sample, const DrawKey& key, const SampleParts& to) const {
  if (output_dtype_ == DType::i64) {
    if (sample.image.shape() != input_) fail_shape(sample.image.shape(), input_, key);
    std::memcpy(to.image, sample.image.raw(), sample.image.bytes());
    return;
  }
  thread_local ImageWork work;
  transform(sample, key, work);
  finish(work, to);
  work.finish(affine_, static_cast<float*>(to.image));
}

ImageWindow Pipeline::window(const Sample& sample, const DrawKey& key, const SampleParts& to) const {
  thread_local ImageWork work;
  if (sample.image.shape() != input_) fail_shape(sample.image.shape(), input_, key);
  transform(sample, key, work);
  ensure(work.is_window(), "data", "sample {} is no window of its record", key.sample);
  finish(work, to);
  const ImageView& view = work.view();
  return {.top = static_cast<std::int32_t>(view.window.top),
          .left = static_cast<std::int32_t>(view.window.left),
          .fill = view.fill,
          .mirrored = view.mirrored,
          .flipped = view.flipped};
}

}  // namespace tandem::datasets
