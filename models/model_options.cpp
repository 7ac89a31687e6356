// Turns what the registries say into a schema.
#include "models/model_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "files/json_value.h"
#include "models/builder.h"
#include "models/layer_types.h"

namespace tandem::models {

using options::Key;
using options::Schema;
using options::Type;
using options::Value;

namespace {

Type type_of(const OptionInfo& option) {
  Type type;
  if (std::isfinite(option.low)) type.min = option.low;
  if (std::isfinite(option.high)) type.max = option.high;
  type.choices = option.choices;
  type.keyword = option.word;
  switch (option.type) {
    case OptionType::integer:
      type.kind = Type::Kind::integer;
      break;
    case OptionType::real:
      type.kind = Type::Kind::number;
      break;
    case OptionType::boolean:
      type.kind = Type::Kind::boolean;
      break;
    case OptionType::text:
      type.kind = Type::Kind::string;
      break;
    case OptionType::pair:
      type.kind = Type::Kind::numbers;
      type.whole = true;
      type.max_count = 2;
      break;
    case OptionType::integers: {
      Type item = type;
      item.kind = Type::Kind::integer;
      item.keyword.clear();
      type.kind = Type::Kind::list;
      type.item = std::make_shared<const Type>(std::move(item));
      break;
    }
  }
  type.nullable = !option.fallback && !option.required && option.word.empty();
  return type;
}

Key key_of(const OptionInfo& option) {
  Key key;
  key.name = option.name;
  key.type = type_of(option);
  key.help = option.help;
  key.required = option.required;
  if (option.fallback)
    key.default_value = std::visit([](const auto& value) -> Value { return value; }, *option.fallback);
  key.store = [name = key.name](void* object, const Value& value) {
    static_cast<ModelOptions*>(object)->spec.set(name, value);
  };
  key.load = [name = key.name, fallback = key.default_value](const void* object) {
    const Value* const found = static_cast<const ModelOptions*>(object)->spec.find(name);
    return found ? *found : fallback;
  };
  return key;
}

// Adds the options of one variant; those that several variants describe alike become one key.
void add_variant(Schema& schema, const std::string& variant, const std::vector<OptionInfo>& options) {
  for (const OptionInfo& option : options) {
    Key key = key_of(option);
    bool merged = false;
    for (Key& existing : schema.keys) {
      if (existing.name != key.name || existing.only_for.empty() || existing.required != key.required ||
          existing.type.text() != key.type.text() || !(existing.default_value == key.default_value))
        continue;
      existing.only_for.push_back(variant);
      merged = true;
    }
    if (merged) continue;
    key.only_for = {variant};
    schema.keys.push_back(std::move(key));
  }
}

Key plain_key(std::string name, Type::Kind kind, std::string help) {
  OptionInfo option;
  option.name = std::move(name);
  option.help = std::move(help);
  Key key = key_of(option);
  key.type = {};
  key.type.kind = kind;
  return key;
}

std::shared_ptr<const Type> text_type() {
  Type text;
  text.kind = Type::Kind::string;
  return std::make_shared<const Type>(text);
}

Schema layer_schema() {
  Schema schema;
  schema.discriminator = "type";
  schema.keys.push_back(plain_key("type", Type::Kind::string, "what the layer is"));
  schema.keys.back().required = true;
  schema.keys.push_back(
      plain_key("name", Type::Kind::string, "what other layers call it; its position by default"));
  Key inputs =
      plain_key("inputs", Type::Kind::list,
                "names of layers (\"halves.0\" where there are several outputs), of fields of the batch, or "
                "\"input\"; by default the layer before");
  inputs.type.item = text_type();
  schema.keys.push_back(std::move(inputs));
  Key nested = plain_key("layers", Type::Kind::any, "the layers of a sequential, as in model.layers");
  nested.only_for = {"sequential"};
  std::vector<std::string> types, meanings;
  for (const LayerType& type : layer_types()) {
    types.push_back(type.name);
    meanings.push_back(type.help);
    add_variant(schema, type.name, type.options);
  }
  types.emplace_back("sequential");
  meanings.emplace_back("layers of its own, in order or as a graph");
  schema.keys.front().type.choices = std::move(types);
  schema.keys.front().type.meanings = std::move(meanings);
  schema.keys.push_back(std::move(nested));
  Key output = plain_key("output", Type::Kind::string, "name of the layer whose output is the sequential's");
  output.only_for = {"sequential"};
  schema.keys.push_back(std::move(output));
  return schema;
}

Schema model_schema() {
  static const Schema layers_schema = layer_schema();
  Schema schema;
  schema.make = [] { return options::Record(ModelOptions{}); };
  schema.rules.push_back({"", [](const void* object) -> std::string {
                            const Value& spec = static_cast<const ModelOptions*>(object)->spec;
                            const Value* const name = spec.find("name");
                            const bool named = name && !name->is(Value::Kind::null);
                            if (named != (spec.find("layers") != nullptr)) return "";
                            return named ? "has both a name and layers; one of them is the model"
                                         : "needs a name (one of `tandem ls models`) or layers";
                          }});
  schema.short_key = "name";
  schema.keys.push_back(plain_key("name", Type::Kind::string, "a registered model"));
  schema.keys.front().type.nullable = true;
  schema.keys.front().type.choices = model_names();
  for (const ModelInfo& model : registry()) {
    schema.keys.front().type.meanings.push_back(model.help);
    add_variant(schema, model.name, model.options);
  }
  Type layer;
  layer.kind = Type::Kind::object;
  layer.schema = &layers_schema;
  Key layers = plain_key("layers", Type::Kind::list, "instead of a name: the layers, in order or as a graph");
  layers.type.item = std::make_shared<const Type>(layer);
  layers.only_for = {""};
  schema.keys.push_back(std::move(layers));
  Key output = plain_key("output", Type::Kind::string,
                         "name of the layer whose output is the model's; the last by default");
  output.type.nullable = true;
  output.only_for = {""};
  schema.keys.push_back(std::move(output));
  Key outputs = plain_key("outputs", Type::Kind::list, "instead of output: the names of several");
  outputs.type.item = text_type();
  outputs.type.nullable = true;
  outputs.only_for = {""};
  schema.keys.push_back(std::move(outputs));
  OptionInfo shape;
  shape.name = "input_shape";
  shape.type = OptionType::integers;
  shape.help = "height, width and channels of a sample; those of the data by default";
  shape.low = 1;
  shape.high = 1 << 24;
  schema.keys.push_back(key_of(shape));
  return schema;
}

}  // namespace

const Schema& ModelOptions::schema() {
  static const Schema schema = model_schema();
  return schema;
}

nn::ModulePtr build(const ModelOptions& options, const DataInfo& data, const std::string& path) {
  return build(files::to_json<nlohmann::json>(options.spec), data, path);
}

}  // namespace tandem::models
