// What a run knows of its data once the files are gone; kept in the metadata of saved weights.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/dataset.h"

namespace tandem::tasks {

struct DataDescription {
  datasets::DatasetInfo info;
  Index image_size = 0;        // side that images of varying size are brought to; 0: they have one size
  Index training_samples = 0;  // 0: not known; not kept
};
nlohmann::ordered_json to_json(const DataDescription& description);
DataDescription data_description(const nlohmann::ordered_json& json);

}  // namespace tandem::tasks
