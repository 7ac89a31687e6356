// The preparation of images for a network, as a list of transforms written out.
#pragma once

#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

// Those that a list for training or evaluation stands for: a random_resized_crop without a size gets
// `image_size`, and images of varying size are first brought to it (shorter side, then the centre) unless the
// list has a resize or random_resized_crop. Images with masks are brought to it whole, by a resize of both
// sides, unless `set_size` of the list; images with boxes likewise, but at the end of the list.
std::vector<TransformSpec> with_sizes(const DatasetInfo& info, Index image_size,
                                      std::span<const TransformSpec> specs, bool evaluation);

// Whether a list gives images of any size one size by itself: by a resize, or a crop of a given size.
bool set_size(std::span<const TransformSpec> specs);

// What is done to an image of any size before a network trained on such data judges it: what evaluation does,
// and where the data's images are all of one size, first a resize to that. Of data that is no images:
// nothing.
std::vector<TransformSpec> preparation(const DatasetInfo& info, Index image_size,
                                       std::span<const TransformSpec> augment);

}  // namespace tandem::datasets
