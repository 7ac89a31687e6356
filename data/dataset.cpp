#include "data/dataset.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/limits.h"

namespace tandem::datasets {

InMemoryDataset::InMemoryDataset(Tensor images, Tensor labels, DatasetInfo info, const std::string& source)
    : images_(std::move(images)), labels_(std::move(labels)) {
  info_ = std::move(info);
  require(images_.rank() >= 2, source, "images {} are not [count, …]", to_string(images_.shape()));
  const bool indices = images_.dtype() == DType::i64;
  require(images_.dtype() == DType::u8 || images_.dtype() == DType::f32 || indices, source,
          "images are {}, expected u8, f32 or, for indices, i64", name_of(images_.dtype()));
  require(labels_.dtype() == DType::i64 && labels_.rank() == 1, source, "labels are {}, expected i64[count]",
          to_string(labels_));
  size_ = images_.shape()[0];
  require(size_ == labels_.shape()[0], source, "{} images, but {} labels", size_, labels_.shape()[0]);
  require(size_ > 0, source, "there are no samples");
  require(size_ <= kMaxSamples, source, "{} samples, at most {} can be numbered", size_, kMaxSamples);
  if (images_.rank() == 3 && !indices) images_ = images_.viewed(images_.shape().inserted(3, 1));
  info_.dtype = images_.dtype();
  info_.sample_shape = images_.shape().without(0);
  require(info_.sample_shape.numel() > 0, source, "images of shape {} have no pixels",
          to_string(info_.sample_shape));
  sample_bytes_ = images_.bytes() / static_cast<std::size_t>(size_);

  const std::int64_t* label = labels_.data<std::int64_t>();
  const auto [lowest, highest] = std::minmax_element(label, label + size_);
  require(*lowest >= 0, source, "label {} of sample {} is negative", *lowest, lowest - label);
  require(*highest < kMaxClasses, source,
          "label {} of sample {} is out of range, there are at most {} classes", *highest, highest - label,
          kMaxClasses);
  require(info_.classes <= kMaxClasses, source, "{} classes, there are at most {}", info_.classes,
          kMaxClasses);
  if (info_.classes == 0) {
    info_.classes = *highest + 1;
    require(info_.classes <= std::max(kFewClasses, size_), source,
            "label {} of sample {} makes {} classes, more than there are samples ({}); set data.classes to "
            "their number",
            *highest, highest - label, info_.classes, size_);
  }
  require(*highest < info_.classes, source,
          "label {} of sample {} is out of range, there are {} classes (0 to {})", *highest, highest - label,
          info_.classes, info_.classes - 1);
}

Sample InMemoryDataset::get(Index index) const {
  ensure(index >= 0 && index < size_, info_.name, "sample {} of {}", index, size_);
  return {Tensor::over(images_.storage(), images_.offset() + static_cast<std::size_t>(index) * sample_bytes_,
                       info_.sample_shape, images_.dtype()),
          labels_.data<std::int64_t>()[index]};
}

void require_finite(const Tensor& images, const std::string& source) {
  if (images.dtype() != DType::f32 || images.numel() == 0) return;
  const float* values = images.data<float>();
  const Index count = images.size(0), each = images.numel() / count;
  const auto finite = [](float value) { return std::isfinite(value); };
  Index bad = 0, first = -1;
  for (Index i = 0; i < count; ++i) {
    const float *begin = values + i * each, *end = begin + each;
    const float* found = std::find_if_not(begin, end, finite);
    if (found == end) continue;
    if (first < 0) first = found - values;
    ++bad;
  }
  if (bad == 0) return;
  std::string place;
  Index below = first % each;
  for (int axis = images.rank() - 1; axis > 0; --axis) {
    place = fmt::format("{}{}{}", below % images.size(axis), place.empty() ? "" : ",", place);
    below /= images.size(axis);
  }
  throw UserError(source, fmt::format("{} of {} samples hold a value that is not finite, the first is sample "
                                      "{} with {} at [{}]; replace such values or leave out these samples",
                                      bad, count, first / each, values[first], place));
}

namespace {

struct Sums {
  std::vector<double> sum, squares;
  double count = 0;
};

template <class T>
void add_sample(const Tensor& image, double unit, Sums& sums) {
  const T* values = image.data<T>();
  const auto channels = static_cast<Index>(sums.sum.size());
  for (Index i = 0; i < image.numel(); i += channels) {
    for (Index c = 0; c < channels; ++c) {
      const double value = static_cast<double>(values[i + c]) * unit;
      sums.sum[c] += value;
      sums.squares[c] += value * value;
    }
    sums.count += 1.0;
  }
}

}  // namespace

ChannelStatistics statistics_of(const Dataset& dataset, Index at_most) {
  const DatasetInfo& info = dataset.info();
  if (info.dtype == DType::i64) return {};
  const Index channels = info.sample_shape.rank() == 3 ? info.sample_shape[2] : 1;
  ensure(channels > 0, "statistics", "images have {} channels", channels);
  Sums sums{std::vector<double>(channels), std::vector<double>(channels)};
  const Index count = std::min(dataset.size(), at_most);
  for (Index i = 0; i < count; ++i) {
    const Tensor image = dataset.get(i).image;
    if (image.dtype() == DType::u8) {
      add_sample<std::uint8_t>(image, 1.0 / 255.0, sums);
    } else {
      add_sample<float>(image, 1.0, sums);
    }
  }
  ChannelStatistics result{std::vector<float>(channels), std::vector<float>(channels)};
  for (Index c = 0; c < channels; ++c) {
    const double mean = sums.sum[c] / sums.count;
    const double variance = std::max(0.0, sums.squares[c] / sums.count - mean * mean);
    result.mean[c] = static_cast<float>(mean);
    // A constant channel is centred only.
    result.stddev[c] =
        variance > 1e-12 * (mean * mean + 1e-12) ? static_cast<float>(std::sqrt(variance)) : 1.0F;
  }
  return result;
}

}  // namespace tandem::datasets
