// Schema of a model's section: the keys of registered models and of layer types, for the object that build()
// takes.
#include "models/model_options.h"

#include "files/json_value.h"
#include "models/builder.h"
#include "models/layer_types.h"

namespace tandem::models {

using options::Describe;
using options::Key;
using options::Schema;
using options::Type;
using options::Value;
using options::Variant;

namespace {

// Keeps values as written: defaults of a model or a layer do not belong in the file.
void keep_in_spec(Key& key) {
  key.store = [name = key.name](void* object, const Value& value) {
    static_cast<ModelOptions*>(object)->spec.set(name, value);
  };
  key.load = [name = key.name, fallback = key.default_value](const void* object) {
    const Value* const found = static_cast<const ModelOptions*>(object)->spec.find(name);
    return found ? *found : fallback;
  };
  key.visit = {};
}

// The keys of a choice among `variants`, after the discriminator and with the `common` keys of every variant.
Schema schema_with(const options::RegistryInfo& info, const std::vector<const Variant*>& variants,
                   const Schema& common) {
  Schema schema = options::schema_of_choice(info, variants);
  schema.keys.insert(schema.keys.begin() + 1, common.keys.begin(), common.keys.end());
  schema.short_key.clear();
  return schema;
}

struct CommonKeys {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> inputs;
};

struct SequentialKeys {
  Value layers;
  std::optional<std::string> output;
};

Schema layer_schema() {
  static const Variant sequential{
      "sequential", "nested layers, in order or as a graph",
      Describe<SequentialKeys>()
          .key("layers", &SequentialKeys::layers, "layers of a sequential, as in model.layers")
          .key("output", &SequentialKeys::output, "name of the output layer")};
  std::vector<const Variant*> variants = layer_types().variants();
  variants.push_back(&sequential);
  const Schema common = Describe<CommonKeys>()
                            .key("name", &CommonKeys::name, "name for other layers; default: its position")
                            .key("inputs", &CommonKeys::inputs,
                                 "names of layers (\"halves.0\" for one of several outputs), of fields of "
                                 "the batch, or \"input\"; default: the layer before");
  return schema_with({.what = "layer type", .help = "type of the layer", .discriminator = "type"}, variants,
                     common);
}

// One layer as written.
struct Layer {
  Value written = options::Given{};
  static const Schema& schema() {
    static const Schema schema = layer_schema();
    return schema;
  }
};

struct GraphKeys {
  std::vector<Layer> layers;
  std::optional<std::string> output;
  std::optional<std::vector<std::string>> outputs;
};

struct ShapeKeys {
  std::optional<std::vector<Index>> input_shape;
};

Schema model_schema() {
  Schema schema = schema_with({.what = "model", .help = "a registered model"}, registry().variants(), {});
  Key& name = schema.keys.front();
  name.required = false;  // layers may be given instead
  name.type.nullable = true;
  Schema graph =
      Describe<GraphKeys>()
          .key("layers", &GraphKeys::layers, "layers, in order or as a graph, instead of a name")
          .key("output", &GraphKeys::output, "name of the output layer; default: the last")
          .key("outputs", &GraphKeys::outputs, "names of several output layers, instead of output");
  for (Key& key : graph.keys) {
    key.only_for = {""};
    key.default_value = {};
    schema.keys.push_back(std::move(key));
  }
  const Schema shape = Describe<ShapeKeys>().key(
      "input_shape", &ShapeKeys::input_shape,
      "height, width and channels of a sample; default: those of the data", size_rule());
  schema.keys.push_back(shape.keys.front());
  for (Key& key : schema.keys) keep_in_spec(key);
  schema.short_key = "name";
  schema.make = [] { return options::Record(ModelOptions{}); };
  schema.rules = {{"", [](const void* object) -> std::string {
                     const Value& spec = static_cast<const ModelOptions*>(object)->spec;
                     const Value* const named = spec.find("name");
                     const bool has_name = named && !named->is(Value::Kind::null);
                     if (has_name != (spec.find("layers") != nullptr)) return "";
                     return has_name ? "has both a name and layers; one of them is the model"
                                     : "needs a name (one of `tandem ls models`) or layers";
                   }}};
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
