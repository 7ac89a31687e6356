// Registered models by name.
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

// Facts of the data that a model is made for; they replace missing options, and must agree with given ones.
struct DataInfo {
  Shape sample;                     // of one sample, without the batch: [H,W,C]; rank 0: unknown
  DType dtype = DType::f32;         // of the samples
  Index classes = 0;                // 0: unknown
  Index words = 0;                  // vocabulary size of a text; 0: not a text
  Index target_words = 0;           // target vocabulary size; 0: no target text
  bool shared_words = false;        // both vocabularies are the same
  std::optional<ModelKind> kind{};  // required by the task; absent: any
  // Named inputs; the first is the default, and replaces `sample` and `dtype`. Empty: one unnamed input.
  std::vector<FieldInfo> fields{};
};

struct ModelInfo : options::Variant {  // name: "resnet20"
  // `options` match its schema (record_of). Throws OptionError with the option's path.
  std::function<nn::ModulePtr(const void* options, const DataInfo& data)> make;
  ModelKind kind = ModelKind::classifier;
};

// In the order of the documentation. models/registry_keys.h makes entries.
options::Entries<ModelInfo>& registry();

// Makes a registered model; weights are drawn under the active RandomScope. Throws UserError for an unknown
// name (with the nearest known one) and OptionError for invalid options, with a place that starts with
// `path`.
//   auto model = models::create("resnet20", {{"in_channels", 1}, {"num_classes", 10}});
nn::ModulePtr create(const std::string& name, const options::Given& options = {}, const DataInfo& data = {},
                     const std::string& path = "model");

}  // namespace tandem::models
