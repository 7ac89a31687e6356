// A model in a configuration: a registered name with its options, or a list of layers.
#pragma once

#include <memory>

#include "core/options/schema.h"
#include "core/options/value.h"
#include "models/registry.h"
#include "nn/module.h"

namespace tandem::models {

struct ModelOptions {
  options::Value spec = options::Given{};  // an object for build() (models/builder.h)
  static const options::Schema& schema();
};

// Weights are drawn under the active RandomScope. Throws as build(); `path` is the place of the options in
// the configuration.
nn::ModulePtr build(const ModelOptions& options, const DataInfo& data, const std::string& path = "model");

// The same for a model with an interface such as CausalModel.
template <class Interface>
std::shared_ptr<Interface> build_as(const ModelOptions& options, DataInfo data,
                                    const std::string& path = "model") {
  data.kind = Interface::kind;
  auto model = std::dynamic_pointer_cast<Interface>(build(options, data, path));
  if (!model) throw OptionError(path, "a list of layers " + not_of_kind(Interface::kind));
  return model;
}

}  // namespace tandem::models
