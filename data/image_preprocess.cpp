#include "data/image_preprocess.h"

#include "core/kernels/image.h"
#include "data/sample_source.h"

namespace tandem::datasets {

bool ImagePreprocess::needed(const Pipeline& pipeline, const SampleOptions& options) {
  return options.device.type != DeviceType::cpu || options.dtype != pipeline.output_dtype();
}

ImagePreprocess::ImagePreprocess(const Pipeline& pipeline, const SampleOptions& options, Index samples,
                                 bool records)
    : pipeline_(pipeline),
      most_samples_(samples),
      device_(options.device),
      dtype_(options.dtype),
      records_(records),
      backend_(backend_for(options.device)) {
  if (!records) return;
  const Affine& affine = pipeline.affine();
  affine_ = {Tensor::from(affine.scale, {affine.channels()}, device_),
             Tensor::from(affine.offset, {affine.channels()}, device_)};
}

std::vector<Tensor> ImagePreprocess::memory() const {
  return {Tensor::empty(pipeline_.output_shape().inserted(0, most_samples_),
                        {.dtype = dtype_, .device = device_, .kind = MemoryKind::data})};
}

Batch ImagePreprocess::finish(Batch parts, std::span<const Tensor> memory) const {
  const Tensor images = parts.samples == most_samples_ ? memory[0] : memory[0].rows(0, parts.samples);
  std::vector<Field> fields{{"image", images}};
  for (const Field& field : parts.fields()) {
    if (field.name != "image" && field.name != kRecords && field.name != kWindows) fields.push_back(field);
  }
  if (records_) {
    const Shape& window = pipeline_.window_shape();
    const Shape shape{parts.samples, window[0], window[1],
                      images.numel() / (parts.samples * window[0] * window[1])};
    backend_.image().render_images(parts[kRecords], parts[kWindows], affine_, images.viewed(shape));
  } else {
    backend_.cast(parts["image"], images);
  }
  Batch batch(std::move(fields), parts.samples);
  batch.first = parts.first;
  batch.weight = parts.weight;
  batch.rate_factor = parts.rate_factor;
  return batch;
}

}  // namespace tandem::datasets
