// Preprocessing of images on their device: rendering from 8-bit records, or a cast.
#pragma once

#include <string_view>

#include "core/backend.h"
#include "data/source.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

struct SampleOptions;

// Fields of batches rendered on the device: u8 [N,H,W,C] and u8 [N,sizeof(ImageWindow)].
inline constexpr std::string_view kRecords = "record", kWindows = "window";

class ImagePreprocess final : public DevicePreprocess {
 public:
  // True if images go to another device, or have another dtype, than the pipeline's output.
  static bool needed(const Pipeline& pipeline, const SampleOptions& options);

  // `samples`: the largest batch. Keeps a reference to `pipeline`. Throws UserError when there is no such
  // device.
  ImagePreprocess(const Pipeline& pipeline, const SampleOptions& options, Index samples, bool records);

  std::vector<Tensor> memory() const override;
  Batch finish(Batch parts, std::span<const Tensor> memory) const override;

 private:
  const Pipeline& pipeline_;
  const Index most_samples_;
  const Device device_;
  const DType dtype_;
  const bool records_;
  Backend& backend_;
  ImageAffine affine_;
};

}  // namespace tandem::datasets
