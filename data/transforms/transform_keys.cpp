// Keys of a listed transform: a spec stores given values only, without defaults.
#include "data/transforms/transform.h"

namespace tandem::datasets {

using options::Key;
using options::Schema;
using options::Value;

namespace {

// An explicit default equals an absent one.
void keep_in_spec(Key& key) {
  const std::vector<double> defaults = numbers_of(key.default_value);
  key.store = [name = key.name, defaults](void* object, const Value& value) {
    std::vector<double> numbers = numbers_of(value);
    auto& parameters = static_cast<TransformSpec*>(object)->parameters;
    parameters.erase(name);
    if (numbers != defaults) parameters.emplace(name, std::move(numbers));
  };
  key.load = [name = key.name, kind = key.type.kind, defaults](const void* object) {
    const auto& given = static_cast<const TransformSpec*>(object)->parameters;
    const auto found = given.find(name);
    return value_of(found == given.end() ? defaults : found->second, kind);
  };
}

Schema transform_schema() {
  Schema schema = options::schema_of_choice({.what = "transform", .help = "transform of each training image"},
                                            transforms().variants());
  for (Key& key : schema.keys) keep_in_spec(key);
  Key& name = schema.keys.front();
  name.store = [](void* object, const Value& value) {
    static_cast<TransformSpec*>(object)->name = value.text;
  };
  name.load = [](const void* object) -> Value { return static_cast<const TransformSpec*>(object)->name; };
  schema.make = [] { return options::Record(TransformSpec{}); };
  schema.rules.clear();  // those of the described structs; parameters_of checks them
  return schema;
}

}  // namespace

const Schema& TransformSpec::schema() {
  static const Schema schema = transform_schema();
  return schema;
}

}  // namespace tandem::datasets
