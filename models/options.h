// What the descriptions of models and layers share (docs/options.md): ranges of sizes, values that follow
// from the data, where an error stands.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options/check.h"
#include "core/options/registry.h"
#include "core/shape.h"

namespace tandem::models {

inline constexpr double kMaxExtent = 1 << 24;  // keeps a mistyped size from asking for absurd memory

using Pair = std::array<Index, 2>;  // of both axes: height, width

// A wrong key or value at a place of the configuration, such as model.layers[3].kernel.
using options::OptionError;

// The ranges of an extent or a count, and of a probability.
inline options::Rule size_rule(bool required = false) {
  return {.min = 1, .max = kMaxExtent, .required = required};
}
inline options::Rule probability_rule() { return {.min = 0.0, .max = 0.999999}; }

// A member of a base of T, to be described as T's.
template <class T, class Base, class M>
M T::*of(M Base::*member) {
  return member;
}

// The end of an error message: "; did you mean \"kernel\"?", or what is known when nothing is near.
std::string suggestion(std::string_view name, std::span<const std::string> known);

// The given value of `key`, which must equal `actual` when that is known (not 0); else `actual`; else
// `fallback`. `meaning` completes "the input has … ". Throws OptionError.
Index known_or(const char* key, std::optional<Index> given, Index actual, Index fallback,
               const char* meaning);

// "model.layers[3]" and "kernel.1" → "model.layers[3].kernel[1]"
std::string place(const std::string& path, std::string_view key);

// Calls `make`; the place of an OptionError, an option's path, comes to lie below `path`.
template <class Make>
auto at_place(const std::string& path, const Make& make) {
  try {
    return make();
  } catch (const OptionError& error) {
    throw OptionError(place(path, error.path()), error.detail());
  }
}

// What was given for a model or a layer, checked and laid over the defaults. null stands for what is not
// given; of a pair both are. Throws OptionError with the path of the option.
options::Record record_of(const options::Variant& described, const options::Given& given);

}  // namespace tandem::models
