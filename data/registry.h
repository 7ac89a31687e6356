// Sets of labelled samples by name, split for training and testing.
#pragma once

#include <span>
#include <string_view>

#include "data/labelled_set.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// In the order documents list them. One must be named.
LabelledRegistry& labelled_sets();

// What a configuration says about such a set.
struct LabelledSetOptions {
  options::Choice<labelled_sets> set;
  SetOptions common;
  static const options::Schema& schema();
};

// Throws UserError: missing files (with the package or archive that has them), and whatever is wrong with the
// files; `report` is told of samples that are skipped where the set is told to.
Splits open_dataset(const LabelledSetOptions& options, const SampleReport& report = {});
// By name; throws UserError also for an unknown one (with the nearest) and for keys it does not have.
//   open_dataset("idx", {.path = "digits", .train_size = 1000}, {{"layout", "nchw"}});
Splits open_dataset(std::string_view name, const SetOptions& common = {}, const options::Given& own = {},
                    const SampleReport& report = {});

// The pipelines for a list of augmentations. Images of varying size are first brought to image_size (shorter
// side, then the centre), unless the list has a resize or random_resized_crop; the latter's size is
// image_size unless given. Evaluation uses `evaluation_transforms` of the list.
Pipeline training_pipeline(const Splits& splits, std::span<const TransformSpec> augment);
Pipeline evaluation_pipeline(const Splits& splits, std::span<const TransformSpec> augment);

}  // namespace tandem::datasets
