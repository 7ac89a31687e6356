// Image preprocessing as an explicit list of transforms.
#pragma once

#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

// Completes a list for training or evaluation. A random_resized_crop without a size gets `image_size`. Images
// of varying size are first resized (shorter side) and cropped at the centre, unless the list has a resize or
// random_resized_crop. Images with masks are resized on both sides instead, unless `set_size` of the list; so
// are images with boxes, but at the end of the list.
std::vector<TransformSpec> with_sizes(const DatasetInfo& info, Index image_size,
                                      std::span<const TransformSpec> specs, bool evaluation);

// True if the list brings images of any size to one: by a resize, or a crop of a given size.
bool set_size(std::span<const TransformSpec> specs);

// Preprocessing of an image of any size for inference: that of evaluation, preceded by a resize if all images
// of the data have one size. Empty if the data are no images.
std::vector<TransformSpec> preparation(const DatasetInfo& info, Index image_size,
                                       std::span<const TransformSpec> augment);

}  // namespace tandem::datasets
