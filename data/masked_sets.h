// Registry of data sets of images with masks.
#pragma once

#include <string_view>

#include "data/chosen_set.h"
#include "data/labelled_set.h"

namespace tandem::datasets {

// In the order of the documentation. There is no default.
LabelledRegistry& masked_sets();

// Configuration of such a set.
using MaskedSetOptions = ChosenSet<masked_sets, SetOptions>;

// Opens a set as open_dataset (data/registry.h) does.
Splits open_masked_set(const MaskedSetOptions& options, const SampleReport& report = {});
//   open_masked_set("masks", {.path = "cells"}, {{"values", std::vector<Index>{0, 255}}});
Splits open_masked_set(std::string_view name, const SetOptions& common = {}, const options::Given& own = {},
                       const SampleReport& report = {});

}  // namespace tandem::datasets
