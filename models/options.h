// Shared parts of model and layer descriptions (docs/options.md): ranges of sizes, options inferred from the
// data, places of errors.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/options/check.h"
#include "core/options/registry.h"
#include "core/shape.h"

namespace tandem::models {

inline constexpr double kMaxExtent = 1 << 24;  // protects against absurd allocations by a mistyped size

using Pair = std::array<Index, 2>;  // height, width

// A wrong key or value at a place of the configuration, such as model.layers[3].kernel.
using options::OptionError;

// Ranges of an extent or a count, and of a probability.
inline options::Rule size_rule(bool required = false) {
  return {.min = 1, .max = kMaxExtent, .required = required};
}
inline options::Rule probability_rule() { return {.min = 0.0, .max = 0.999999}; }

// A member of a base of T, described as T's.
template <class T, class Base, class M>
M T::*of(M Base::*member) {
  return member;
}

// End of an error message: "; did you mean \"kernel\"?", or the known names if none is near.
std::string suggestion(std::string_view name, std::span<const std::string> known);

// The given value of `key`, which must equal `actual` if that is known (not 0); else `actual`; else
// `fallback`. `meaning` completes "the input has … ". Throws OptionError.
Index known_or(const char* key, std::optional<Index> given, Index actual, Index fallback,
               const char* meaning);

// "model.layers[3]" and "kernel.1" → "model.layers[3].kernel[1]"
std::string place(const std::string& path, std::string_view key);

// Calls `make`; prepends `path` to the place of an OptionError.
template <class Make>
auto at_place(const std::string& path, const Make& make) {
  try {
    return make();
  } catch (const OptionError& error) {
    throw OptionError(place(path, error.path()), error.detail());
  }
}

// The given options of a model or a layer, checked and merged with the defaults. null means not given; a pair
// needs both values. Throws OptionError with the option's path.
options::Record record_of(const options::Variant& described, const options::Given& given);

}  // namespace tandem::models
