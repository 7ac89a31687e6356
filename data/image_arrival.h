// Images on their device: rendered from 8-bit records, or cast, and given channels of zeros.
#pragma once

#include <string_view>

#include "core/backend.h"
#include "data/source.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

struct SampleOptions;

// Fields of batches whose images are rendered on the device: u8 [N,H,W,C], and u8 [N,sizeof(ImageWindow)].
inline constexpr std::string_view kRecords = "record", kWindows = "window";

// How a device wants images.
struct ImageForm {
  Device device;
  DType dtype = DType::f32;
  Index channel_multiple = 1;  // to which images [H,W,C] are padded with channels of zeros

  static ImageForm of(const SampleOptions& options);
  // The shape of an image on the device.
  Shape shape(const Pipeline& pipeline) const;
  // Whether it is what the pipeline makes.
  bool is_output_of(const Pipeline& pipeline) const;
};

class ImageArrival final : public Arrival {
 public:
  // Whether images do not stay where and as the pipeline makes them.
  static bool needed(const Pipeline& pipeline, const ImageForm& form);

  // `pipeline` is kept by reference. Throws UserError when there is no such device.
  ImageArrival(const Pipeline& pipeline, Index batch_size, ImageForm form, bool records);

  std::vector<Tensor> memory() const override;
  Batch finish(Batch parts, std::span<const Tensor> memory) const override;

 private:
  const Pipeline& pipeline_;
  const Index batch_size_;
  const ImageForm form_;
  const bool records_;
  Backend& backend_;
  Shape shape_;  // of an image on the device
  ImageAffine affine_;
};

}  // namespace tandem::datasets
