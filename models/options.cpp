#include "models/options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/suggest.h"

namespace tandem::models {

std::string suggestion(std::string_view name, std::span<const std::string> known) {
  std::string near = did_you_mean(name, known);
  if (!near.empty() || known.empty()) return near;
  return fmt::format("; known are {}", fmt::join(known, ", "));
}

Index known_or(const char* key, std::optional<Index> given, Index actual, Index fallback,
               const char* meaning) {
  if (!given) return actual != 0 ? actual : fallback;
  if (actual != 0 && *given != actual)
    throw OptionError(key, fmt::format("{} is given, but {} {}", *given, meaning, actual));
  return *given;
}

std::string place(const std::string& path, std::string_view key) {
  std::string whole = path;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string_view word = key.substr(0, dot);
    const bool index = std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    whole = index ? fmt::format("{}[{}]", whole, word) : options::joined(whole, word);
    key.remove_prefix(std::min(dot + 1, key.size()));
  }
  return whole;
}

options::Record record_of(const options::Variant& described, const options::Given& given) {
  options::Given object;
  for (const auto& [name, value] : given) {
    const options::Key* const key = described.schema.find(name);
    if (key && value.is(options::Value::Kind::null)) continue;
    if (key && key->type.kind == options::Type::Kind::numbers && value.is(options::Value::Kind::list) &&
        value.items.size() != key->type.max_count)
      throw OptionError(name, fmt::format("expected {}, got {}: give all {} of the list", key->type.text(),
                                          options::excerpt(value), key->type.max_count));
    object.push_back({name, value});
  }
  return options::bound(described.name, described.schema, object);
}

}  // namespace tandem::models
