// Modules in a row.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tandem::nn {

class BatchNorm;
class Conv2d;

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

 private:
  // What forward() calls, in order: a child, or a convolution with the batch norm behind it.
  struct Step {
    Module* child = nullptr;
    Conv2d* conv = nullptr;
    BatchNorm* norm = nullptr;
  };
  std::vector<Step> steps_;
};

}  // namespace tandem::nn
