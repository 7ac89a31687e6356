// Sequential container of modules.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tandem::nn {

class BatchNorm;
class Conv2d;

// Each child's output is the next one's input; children are called "0", "1", … by default. Empty: the
// identity. A convolution followed by a batch norm runs as conv_norm (nn/layers/conv.h).
class Sequential final : public Module {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<ModulePtr> children);

  Sequential& add(ModulePtr child);
  Sequential& add(const std::string& name, ModulePtr child);
  std::size_t size() const { return children().size(); }

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  // A call in forward(): a child, or a convolution with its batch norm.
  struct Step {
    Module* child = nullptr;
    Conv2d* conv = nullptr;
    BatchNorm* norm = nullptr;
  };
  std::vector<Step> steps_;
};

}  // namespace tandem::nn
