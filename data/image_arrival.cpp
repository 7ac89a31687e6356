#include "data/image_arrival.h"

#include "data/sample_source.h"

namespace tandem::datasets {

namespace {

Tensor first_rows(const Tensor& tensor, Index count) {
  return tensor.shape()[0] == count ? tensor : tensor.rows(0, count);
}

// x [.., C] → y [.., C'] of one dtype; the channels beyond C stay as they are.
void copy_channels(Backend& backend, const Tensor& x, const Tensor& y) {
  const Index channels = x.size(-1);
  StridedView from, to;
  from.strides = {channels, 1};
  to.strides = {y.size(-1), 1};
  backend.strided_copy(x, from, y, to, {x.numel() / channels, channels});
}

}  // namespace

ImageForm ImageForm::of(const SampleOptions& options) {
  return {options.device, options.dtype, options.channel_multiple};
}

Shape ImageForm::shape(const Pipeline& pipeline) const {
  const Shape& shape = pipeline.output_shape();
  if (shape.rank() != 3) return shape;
  return shape.with(2, (shape[2] + channel_multiple - 1) / channel_multiple * channel_multiple);
}

bool ImageForm::is_output_of(const Pipeline& pipeline) const {
  return dtype == pipeline.output_dtype() && shape(pipeline) == pipeline.output_shape();
}

bool ImageArrival::needed(const Pipeline& pipeline, const ImageForm& form) {
  return form.device.type != DeviceType::cpu || !form.is_output_of(pipeline);
}

ImageArrival::ImageArrival(const Pipeline& pipeline, Index batch_size, ImageForm form, bool records)
    : pipeline_(pipeline),
      batch_size_(batch_size),
      form_(form),
      records_(records),
      backend_(backend_for(form.device)),
      shape_(form.shape(pipeline)) {
  if (!records) return;
  const Affine& affine = pipeline.affine();
  affine_ = {Tensor::from(affine.scale, {affine.channels()}, form.device),
             Tensor::from(affine.offset, {affine.channels()}, form.device)};
}

// The images, and where pixels are both cast and padded the cast ones.
std::vector<Tensor> ImageArrival::memory() const {
  const auto memory = [&](const Shape& shape) {
    return Tensor::empty(shape.inserted(0, batch_size_),
                         {.dtype = form_.dtype, .device = form_.device, .kind = MemoryKind::data});
  };
  std::vector<Tensor> result{memory(shape_)};
  if (shape_ == pipeline_.output_shape() || records_) return result;
  backend_.fill(result[0], 0.0);  // what lies beyond the channels is never written again
  if (form_.dtype != DType::f32) result.push_back(memory(pipeline_.output_shape()));
  return result;
}

Batch ImageArrival::finish(Batch parts, std::span<const Tensor> memory) const {
  const Tensor images = first_rows(memory[0], parts.samples);
  std::vector<Field> fields{{"image", images}};
  for (const Field& field : parts.fields()) {
    if (field.name != "image" && field.name != kRecords && field.name != kWindows) fields.push_back(field);
  }
  if (records_) {
    const Shape& window = pipeline_.window_shape();
    const Shape shape{parts.samples, window[0], window[1],
                      images.numel() / (parts.samples * window[0] * window[1])};
    backend_.render_images(parts[kRecords], parts[kWindows], affine_, images.viewed(shape));
  } else if (shape_ == pipeline_.output_shape()) {
    backend_.cast(parts["image"], images);
  } else if (memory.size() == 1) {
    copy_channels(backend_, parts["image"], images);
  } else {
    const Tensor narrow = first_rows(memory[1], parts.samples);
    backend_.cast(parts["image"], narrow);
    copy_channels(backend_, narrow, images);
  }
  Batch batch(std::move(fields), parts.samples);
  batch.weight = parts.weight;
  return batch;
}

}  // namespace tandem::datasets
