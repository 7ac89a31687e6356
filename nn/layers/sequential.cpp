#include "nn/layers/sequential.h"

#include "core/error.h"
#include "nn/layers/conv_norm.h"

namespace tandem::nn {

Sequential::Sequential(std::initializer_list<ModulePtr> children) {
  for (const ModulePtr& child : children) add(child);
}

Sequential& Sequential::add(ModulePtr child) { return add(std::to_string(size()), std::move(child)); }

Sequential& Sequential::add(const std::string& name, ModulePtr child) {
  add_child(name, std::move(child));
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (std::size_t i = 0; i < size(); ++i) {
    Module& child = *children()[i].second;
    auto* const conv = dynamic_cast<Conv2d*>(&child);
    auto* const norm =
        conv && i + 1 < size() ? dynamic_cast<BatchNorm*>(children()[i + 1].second.get()) : nullptr;
    if (norm) ++i;
    y = norm ? conv_norm(*conv, *norm, y) : child(y);
  }
  return y;
}

std::string Sequential::describe() const { return fmt::format("Sequential({} layers)", size()); }

}  // namespace tandem::nn
