#include "data/masked_sets.h"

#include "data/mask_folder.h"

namespace tandem::datasets {

LabelledRegistry& masked_sets() {
  static LabelledRegistry registry({.what = "data set", .help = "the data set"}, {masks_entry});
  return registry;
}

Splits open_masked_set(const MaskedSetOptions& options, const SampleReport& report) {
  return open_set(masked_sets(), options.set, options.common, report);
}

Splits open_masked_set(std::string_view name, const SetOptions& common, const options::Given& own,
                       const SampleReport& report) {
  return open_masked_set({options::Choice<masked_sets>(name, own), common}, report);
}

}  // namespace tandem::datasets
