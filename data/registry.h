// Registry of data sets of labelled samples, split for training and testing.
#pragma once

#include <span>
#include <string_view>

#include "data/chosen_set.h"
#include "data/labelled_set.h"
#include "data/transforms/pipeline.h"

namespace tandem::datasets {

// In the order of the documentation. There is no default.
LabelledRegistry& labelled_sets();

// Configuration of such a set.
using LabelledSetOptions = ChosenSet<labelled_sets, SetOptions>;

// Throws UserError for missing files, with their package or archive, and for invalid files. `report` receives
// the samples that a set skips, if it is configured to skip.
Splits open_dataset(const LabelledSetOptions& options, const SampleReport& report = {});
// Opens a set by name. Throws UserError also for an unknown name (with the nearest) and for unknown keys.
//   open_dataset("idx", {.path = "digits", .train_size = 1000}, {{"layout", "nchw"}});
Splits open_dataset(std::string_view name, const SetOptions& common = {}, const options::Given& own = {},
                    const SampleReport& report = {});

// Pipelines for a list of augmentations. Images of varying size are first resized to image_size (shorter
// side, then centre crop), unless the list has a resize or random_resized_crop; the latter's size is
// image_size by default. Evaluation uses `evaluation_transforms` of the list.
Pipeline training_pipeline(const Splits& splits, std::span<const TransformSpec> augment);
Pipeline evaluation_pipeline(const Splits& splits, std::span<const TransformSpec> augment);

}  // namespace tandem::datasets
