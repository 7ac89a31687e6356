// Mutations of configurations: half are libFuzzer's, of the text; half put a known key or another value into
// the tree.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "config/config.h"
#include "config/describe.h"
#include "models/layer_types.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace tandem;
using config::Json;

const std::vector<config::ListedKey>& known_keys() {
  static const std::vector<config::ListedKey> keys = config::list_keys(config::Config::schema());
  return keys;
}

Json layer(std::mt19937& random) {
  static const std::vector<std::string> types = models::layer_types().names();
  Json layer{{"type", types[random() % types.size()]}};
  for (const options::Key& option :
       models::layer_types().find(layer["type"].get<std::string>())->schema.keys) {
    if (option.required || random() % 4 == 0)
      layer[option.name] = option.type.kind == options::Type::Kind::list
                               ? Json{static_cast<int>(random() % 20), -1}
                               : Json(static_cast<int>(random() % 20));
  }
  return layer;
}

Json some_value(std::mt19937& random) {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           false,
                                           0,
                                           1,
                                           -1,
                                           3,
                                           16777216,
                                           std::int64_t{1} << 53,
                                           INT64_MAX,
                                           INT64_MIN,
                                           0.5,
                                           1e-300,
                                           1e300,
                                           "",
                                           "auto",
                                           "(a|a)*b",
                                           Json::array(),
                                           Json::object(),
                                           Json::array({3, 3}),
                                           Json::array({16777216, 16777216}),
                                           "fp16",
                                           "amp_fp16"};
  return random() % 3 == 0 ? layer(random) : values[random() % values.size()];
}

// A value that a key takes, where that is easily told.
Json value_for(const config::Key& key, std::mt19937& random) {
  if (random() % 3 == 0) return some_value(random);
  if (!key.type.choices.empty()) return key.type.choices[random() % key.type.choices.size()];
  if (key.type.max && random() % 2) return *key.type.max;
  if (key.type.min && random() % 2) return *key.type.min;
  return key.default_value.is(options::Value::Kind::null)
             ? some_value(random)
             : Json::parse(options::to_string(key.default_value));
}

void mutate(Json& root, std::mt19937& random) {
  Json* at = &root;
  while (at->is_structured() && !at->empty() && random() % 3 != 0) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*next;
  }
  if (at->is_array()) {
    at->insert(at->begin() + static_cast<std::ptrdiff_t>(random() % (at->size() + 1)), some_value(random));
  } else if (at->is_object()) {
    const auto& [path, key, only_for] = known_keys()[random() % known_keys().size()];
    (*at)[key->name] = value_for(*key, random);
  } else {
    *at = some_value(random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 2) return LLVMFuzzerMutate(data, size, max_size);
  Json root = Json::parse(data, data + size, nullptr, false, true);
  if (root.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  for (unsigned edits = 1 + random() % 3; edits > 0; --edits) mutate(root, random);
  const std::string text = root.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
