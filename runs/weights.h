// The weights of a module in a file, as runs save and load them.
#pragma once

#include "models/weights.h"

namespace tandem::runs {

using models::compare_weights;
using models::file_shape;
using models::from_file_layout;
using models::load_weights;
using models::LoadOptions;
using models::LoadReport;
using models::Mismatch;
using models::save_weights;
using models::to_file_layout;
using models::weights_of;

}  // namespace tandem::runs
