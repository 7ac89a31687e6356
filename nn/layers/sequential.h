// Modules in a row.
#pragma once

#include <initializer_list>
#include <string>

#include "nn/module.h"

namespace tandem::nn {

// Each child's output is the next one's input; children are called "0", "1", … unless named. Empty: the
// identity. A convolution and a batch norm behind it run as conv_norm (nn/layers/conv_norm.h).
class Sequential final : public Module {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<ModulePtr> children);

  Sequential& add(ModulePtr child);
  Sequential& add(const std::string& name, ModulePtr child);
  std::size_t size() const { return children().size(); }

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
};

}  // namespace tandem::nn
