// The keys of a transform, from the table of parameters.
#include <cmath>

#include "core/options/schema.h"
#include "data/transforms/transform.h"

namespace tandem::datasets {

using options::Key;
using options::Schema;
using options::Type;
using options::Value;

namespace {

Type type_of(const ParameterInfo& parameter) {
  Type type;
  type.kind = parameter.max_count > 1 ? Type::Kind::numbers : Type::Kind::number;
  type.max_count = parameter.max_count;
  if (std::isfinite(parameter.min)) type.min = parameter.min;
  if (std::isfinite(parameter.max)) type.max = parameter.max;
  return type;
}

Value value_of(const std::vector<double>& numbers) {
  return numbers.size() == 1 ? Value(numbers.front()) : Value(numbers);
}

Key key_of(const TransformInfo& transform, const ParameterInfo& parameter) {
  Key key;
  key.name = parameter.name;
  key.type = type_of(parameter);
  key.help = parameter.help;
  key.only_for = {transform.name};
  key.default_value = value_of(parameter.defaults);
  // A default that is written out means the same as one that is not.
  key.store = [name = parameter.name, defaults = parameter.defaults](void* object, const Value& value) {
    std::vector<double> numbers;
    if (!value.is(Value::Kind::list)) numbers.push_back(value.number);
    for (const Value& item : value.items) numbers.push_back(item.number);
    auto& parameters = static_cast<TransformSpec*>(object)->parameters;
    parameters.erase(name);
    if (numbers != defaults) parameters.emplace(name, std::move(numbers));
  };
  key.load = [name = parameter.name, defaults = parameter.defaults](const void* object) {
    const auto& given = static_cast<const TransformSpec*>(object)->parameters;
    const auto found = given.find(name);
    return value_of(found == given.end() ? defaults : found->second);
  };
  return key;
}

Schema transform_schema() {
  Key name;
  name.name = "name";
  name.type.kind = Type::Kind::string;
  name.help = "what to do with each training image";
  name.required = true;
  name.store = [](void* object, const Value& value) {
    static_cast<TransformSpec*>(object)->name = value.text;
  };
  name.load = [](const void* object) -> Value { return static_cast<const TransformSpec*>(object)->name; };
  Schema schema;
  schema.make = [] { return options::Record(TransformSpec{}); };
  schema.short_key = "name";
  schema.keys.push_back(name);
  for (const auto& transform : all_transforms()) {
    schema.keys.front().type.choices.push_back(transform.name);
    schema.keys.front().type.meanings.push_back(transform.help);
    for (const auto& parameter : transform.parameters) schema.keys.push_back(key_of(transform, parameter));
  }
  return schema;
}

}  // namespace

const Schema& TransformSpec::schema() {
  static const Schema schema = transform_schema();
  return schema;
}

}  // namespace tandem::datasets
