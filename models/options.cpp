#include "models/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/suggest.h"

namespace tandem::models {

namespace {

bool in_range(double value, const OptionInfo& info) {
  return std::isfinite(value) && value >= info.low && value <= info.high;
}

std::string range_text(const OptionInfo& info) {
  const bool low = std::isfinite(info.low);
  const bool high = std::isfinite(info.high);
  if (low && high) return fmt::format(" in [{}, {}]", info.low, info.high);
  if (low) return fmt::format(" of at least {}", info.low);
  if (high) return fmt::format(" of at most {}", info.high);
  return "";
}

std::string expected_text(const OptionInfo& info) {
  std::string text = name_of(info.type) + range_text(info);
  if (!info.choices.empty()) text = fmt::format("one of {}", fmt::join(info.choices, ", "));
  if (!info.word.empty()) text += fmt::format(" or \"{}\"", info.word);
  return text;
}

// The value in the type the description asks for; absent when it does not fit.
std::optional<OptionValue> fitted(const OptionInfo& info, const OptionValue& given) {
  if (!info.word.empty()) {
    const auto* text = std::get_if<std::string>(&given);
    if (text && *text == info.word) return given;
  }
  const auto* integer = std::get_if<Index>(&given);
  const auto* list = std::get_if<std::vector<Index>>(&given);
  const auto all_in_range = [&](const std::vector<Index>& values) {
    return std::ranges::all_of(values, [&](Index v) { return in_range(static_cast<double>(v), info); });
  };
  switch (info.type) {
    case OptionType::integer:
      if (integer && in_range(static_cast<double>(*integer), info)) return given;
      return std::nullopt;
    case OptionType::real: {
      const auto* number = std::get_if<double>(&given);
      if (!integer && !number) return std::nullopt;
      const double value = integer ? static_cast<double>(*integer) : *number;
      return in_range(value, info) ? std::optional<OptionValue>(value) : std::nullopt;
    }
    case OptionType::boolean:
      return std::holds_alternative<bool>(given) ? std::optional(given) : std::nullopt;
    case OptionType::text: {
      const auto* text = std::get_if<std::string>(&given);
      if (!text) return std::nullopt;
      return info.choices.empty() || std::ranges::count(info.choices, *text) > 0 ? std::optional(given)
                                                                                 : std::nullopt;
    }
    case OptionType::pair: {
      const std::vector<Index> values = integer ? std::vector<Index>{*integer, *integer}
                                        : list  ? *list
                                                : std::vector<Index>{};
      return values.size() == 2 && all_in_range(values) ? std::optional<OptionValue>(values) : std::nullopt;
    }
    case OptionType::integers:
      return list && all_in_range(*list) ? std::optional(given) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

OptionInfo choice(std::string name, std::string help, std::optional<OptionValue> fallback,
                  std::vector<std::string> choices) {
  return {.name = std::move(name),
          .type = OptionType::text,
          .help = std::move(help),
          .fallback = std::move(fallback),
          .choices = std::move(choices)};
}

const char* name_of(OptionType type) {
  constexpr const char* names[] = {
      "an integer",        "a number", "true or false", "a text", "an integer or [height, width]",
      "a list of integers"};
  return names[static_cast<int>(type)];
}

std::string to_string(const OptionValue& value) {
  struct Text {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(Index v) const { return std::to_string(v); }
    std::string operator()(double v) const {
      const std::string text = fmt::format("{}", v);
      return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& v) const { return "\"" + v + "\""; }
    std::string operator()(const std::vector<Index>& v) const {
      return fmt::format("[{}]", fmt::join(v, ","));
    }
  };
  return std::visit(Text{}, value);
}

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  std::string near = did_you_mean(name, known);
  if (!near.empty() || known.empty()) return near;
  return fmt::format("; known are {}", fmt::join(known, ", "));
}

Options::Options(std::string path, std::span<const OptionInfo> infos, const OptionMap& given)
    : path_(std::move(path)) {
  std::vector<std::string> names;
  for (const OptionInfo& info : infos) names.push_back(info.name);
  for (const auto& [name, value] : given) {
    const auto info = std::ranges::find(infos, name, &OptionInfo::name);
    if (info == infos.end()) fail(name, "unknown key" + suggestion(name, names));
    const auto typed = fitted(*info, value);
    if (!typed) fail(name, fmt::format("expected {}, got {}", expected_text(*info), to_string(value)));
    values_[name] = *typed;
  }
  for (const OptionInfo& info : infos) {
    if (values_.contains(info.name)) continue;
    if (info.required)
      fail(info.name, fmt::format("this key is required: {} ({})", expected_text(info), info.help));
    if (!info.fallback) continue;
    const auto typed = fitted(info, *info.fallback);
    ensure(typed.has_value(), "options", "the default of {} does not fit its own description", info.name);
    values_[info.name] = *typed;
  }
}

std::array<Index, 2> Options::pair(const std::string& name) const {
  const auto& values = get<std::vector<Index>>(name);
  ensure(values.size() == 2, path_, "option {} is not a pair", name);
  return {values[0], values[1]};
}

void Options::fail(const std::string& name, const std::string& message) const {
  throw OptionError(path_.empty() ? name : path_ + "." + name, message);
}

Index Options::integer_or_known(const std::string& name, Index actual, Index fallback,
                                const char* meaning) const {
  if (!has(name)) return actual != 0 ? actual : fallback;
  const Index given = integer(name);
  if (actual != 0 && given != actual)
    fail(name, fmt::format("{} is given, but {} {}", given, meaning, actual));
  return given;
}

const OptionValue& Options::value(const std::string& name) const {
  const auto found = values_.find(name);
  ensure(found != values_.end(), path_, "option {} is read but absent", name);
  return found->second;
}

}  // namespace tandem::models
