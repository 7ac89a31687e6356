// The models that a configuration or a program can ask for by name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "models/model_kind.h"
#include "models/options.h"
#include "nn/module.h"

namespace tandem::models {

// A named part of a batch.
struct FieldInfo {
  std::string name;  // "image"
  Shape sample;      // without the batch: [H,W,C]
  DType dtype = DType::f32;
};

// What is known of the data a model is made for; it fills in options that were not given, and contradicting
// ones are errors.
struct DataInfo {
  Shape sample;                     // of one sample, without the batch: [H,W,C]; rank 0: unknown
  DType dtype = DType::f32;         // of the samples
  Index classes = 0;                // 0: unknown
  Index words = 0;                  // of the vocabulary of a text; 0: it is none
  Index target_words = 0;           // of that of what is to be written of it; 0: nothing is
  bool shared_words = false;        // both vocabularies are one
  std::optional<ModelKind> kind{};  // that the task calls; absent: any
  // What a model may take, by name; the first is what it takes unless told otherwise, and `sample` and
  // `dtype` are then not looked at. Empty: one part, which has no name.
  std::vector<FieldInfo> fields{};
};

struct ModelInfo : options::Variant {  // name: "resnet20"
  // `options` are those of its schema (record_of). Throws OptionError with the option's path.
  std::function<nn::ModulePtr(const void* options, const DataInfo& data)> make;
  ModelKind kind = ModelKind::classifier;
};

// In the order in which they are documented.
const std::vector<ModelInfo>& registry();
// nullptr when there is none of that name.
const ModelInfo* find_model(std::string_view name);
std::vector<std::string> model_names();
// Makes a model of one's own known, before anything has asked for registry(): a program that calls this and
// then does what `tandem` does has it in configurations. models/registry_keys.h makes entries. Throws
// InternalError afterwards.
void add_model(ModelInfo info);

// A registered model; weights are drawn under the active RandomScope. Throws UserError for an unknown name
// (with the nearest known one) and OptionError for wrong options, whose place starts with `path`.
//   auto model = models::create("resnet20", {{"in_channels", 1}, {"num_classes", 10}});
nn::ModulePtr create(const std::string& name, const options::Given& options = {}, const DataInfo& data = {},
                     const std::string& path = "model");

}  // namespace tandem::models
