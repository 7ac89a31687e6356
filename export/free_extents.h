// FreeExtents: numbers that stand for the dynamic extents in a trace: batch, steps, past and source.
#pragma once

#include "core/shape.h"

namespace tandem::exporting {

// The batch is 0. The other numbers divide no extent of a parameter or constant, so an extent that contains
// one of them is recognised.
struct FreeExtents {
  Index steps = 0, past = 0, source = 0;  // nn::Port::kSteps, kPast, kSource; 0: none

  // "N", "T", "P", "S", "P + T" in ONNX; "" for a fixed extent.
  const char* name_of(Index extent) const {
    if (extent == 0) return "N";
    if (extent == steps) return "T";
    if (extent == past) return "P";
    if (extent == source) return "S";
    return past > 0 && extent == past + steps ? "P + T" : "";
  }
  bool contains(Index extent) const { return *name_of(extent) != '\0'; }
  // Whether a value was computed from a dynamic extent.
  bool is_made_of_free(Index value) const {
    const auto is_multiple = [&](Index of) { return of > 0 && value % of == 0; };
    return value != 0 && (is_multiple(steps) || is_multiple(past) || is_multiple(source) ||
                          (past > 0 && is_multiple(past + steps)));
  }
};

}  // namespace tandem::exporting
