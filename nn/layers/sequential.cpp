#include "nn/layers/sequential.h"

#include "core/error.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conv.h"

namespace tandem::nn {

Sequential::Sequential(std::initializer_list<ModulePtr> children) {
  for (const ModulePtr& child : children) add(child);
}

Sequential& Sequential::add(ModulePtr child) { return add(std::to_string(size()), std::move(child)); }

Sequential& Sequential::add(const std::string& name, ModulePtr child) {
  Module* const module = child.get();
  add_child(name, std::move(child));
  auto* const norm = dynamic_cast<BatchNorm*>(module);
  if (norm && !steps_.empty() && steps_.back().conv && !steps_.back().norm) {
    steps_.back().norm = norm;
  } else {
    steps_.push_back({module, dynamic_cast<Conv2d*>(module), nullptr});
  }
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const Step& step : steps_) y = step.norm ? conv_norm(*step.conv, *step.norm, y) : (*step.child)(y);
  return y;
}

std::string Sequential::describe() const { return fmt::format("Sequential({} layers)", size()); }

}  // namespace tandem::nn
