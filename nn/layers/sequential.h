// Modules in a row, and modules in a graph.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

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
  bool take_padded_images(Index channels) override;
  std::string describe() const override;
};

// A directed acyclic graph of modules over one input. Nodes are added in an order in which they can run; each
// names the nodes whose outputs it takes, kInput being the graph's own input. The last node added is the
// output.
class Graph final : public Module {
 public:
  static constexpr int kInput = -1;

  // Returns the index of the new node. Throws UserError when an input is not an earlier node.
  int add(const std::string& name, ModulePtr module, std::vector<int> inputs);

  Tensor forward(const Tensor& x) override;
  bool take_padded_images(Index channels) override;
  std::string describe() const override;

 private:
  struct Node {
    ModulePtr module;
    std::vector<int> inputs;
    std::vector<int> last_uses;  // nodes whose outputs nobody needs after this one
  };
  std::vector<Node> nodes_;
  std::vector<int> last_use_;  // by node: the latest node that reads it, itself when none does
};

}  // namespace tandem::nn
