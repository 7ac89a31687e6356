// Typed, checked parameters of models and layers: described once, then validated, listed and read from that
// description.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/options/check.h"
#include "core/shape.h"

namespace tandem::models {

enum class OptionType : std::uint8_t {
  integer,
  real,  // an integer is accepted
  boolean,
  text,
  pair,      // one integer for both axes, or [height, width]
  integers,  // a list
};

// "an integer", "a number", …
const char* name_of(OptionType type);

using OptionValue = std::variant<bool, Index, double, std::string, std::vector<Index>>;
using OptionMap = std::map<std::string, OptionValue>;

// "3", "0.1", "\"relu\"", "[3,5]": as JSON writes it.
std::string to_string(const OptionValue& value);

struct OptionInfo {
  std::string name;
  OptionType type = OptionType::integer;
  std::string help = {};
  std::optional<OptionValue> fallback = {};  // the default; absent: required or inferred, see `required`
  bool required = false;
  double low = -std::numeric_limits<double>::infinity();  // range of the number, or of each number of a list
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // of a text; empty: any
  std::string word = {};                  // a text that is accepted besides the type, such as "same"
};

inline constexpr double kMaxExtent = 1 << 24;  // keeps a mistyped size from asking for absurd memory

// A text that is one of `choices`.
OptionInfo choice(std::string name, std::string help, std::optional<OptionValue> fallback,
                  std::vector<std::string> choices);

// A wrong key or value at a place of the configuration, such as model.layers[3].kernel.
using options::OptionError;

// The end of an error message: "; did you mean \"kernel\"?", or what is known when nothing is near.
std::string suggestion(std::string_view name, std::span<const std::string> known);

// The validated parameters of one model or layer, at `path` in the configuration.
class Options {
 public:
  // Throws OptionError for an unknown key, a wrong type, a value out of range or not among the choices, and a
  // required key that is not given.
  Options(std::string path, std::span<const OptionInfo> infos, const OptionMap& given);

  // Given, or with a default.
  bool has(const std::string& name) const { return values_.contains(name); }
  // Throw InternalError when the option is absent or of another type.
  Index integer(const std::string& name) const { return get<Index>(name); }
  double real(const std::string& name) const { return get<double>(name); }
  bool boolean(const std::string& name) const { return get<bool>(name); }
  const std::string& text(const std::string& name) const { return get<std::string>(name); }
  const std::vector<Index>& integers(const std::string& name) const { return get<std::vector<Index>>(name); }
  std::array<Index, 2> pair(const std::string& name) const;
  // The option's `word` was given instead of a value.
  bool is_word(const std::string& name) const { return std::holds_alternative<std::string>(value(name)); }

  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& name, const std::string& message) const;

  // The given value, which must equal `actual` when that is known (not 0); else `actual`; else `fallback`.
  // `meaning` completes "the input has … ".
  Index integer_or_known(const std::string& name, Index actual, Index fallback, const char* meaning) const;

 private:
  const OptionValue& value(const std::string& name) const;
  template <class T>
  const T& get(const std::string& name) const {
    const T* typed = std::get_if<T>(&value(name));
    ensure(typed != nullptr, path_, "option {} is read as another type than it was described as", name);
    return *typed;
  }

  std::string path_;
  OptionMap values_;
};

}  // namespace tandem::models
