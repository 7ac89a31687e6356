// Graph container of modules.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace tandem::nn {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// A directed acyclic graph of modules over named inputs (default: one). Nodes are added in a valid execution
// order; each names the outputs it takes from earlier ones. The last node's output is the graph's, unless
// set_outputs names others. A tensor is released after the last node that reads it.
class Graph final : public Module {
 public:
  static constexpr int kInput = -1;  // the first input of the graph
  static constexpr int input(int number) { return kInput - number; }

  // Input of a node: an input of the graph, the output of a node, or one output of a node with several
  // (Module::all_outputs). A node is taken in only one of the two ways.
  struct Source {
    static constexpr int kOnly = -1;
    int node;
    int output;
    Source(int of, int number = kOnly) : node(of), output(number) {}  // an index is a source
  };

  explicit Graph(std::vector<std::string> inputs = {"input"});

  // Returns the index of the new node. Throws UserError for a source that is neither an input nor an earlier
  // node.
  int add(const std::string& name, ModulePtr module, const std::vector<Source>& sources);
  // Names the outputs. Call after the last add().
  void set_outputs(const std::vector<std::pair<std::string, Source>>& outputs);

  const std::vector<std::string>& inputs() const { return inputs_; }
  // Empty unless named.
  const std::vector<std::string>& outputs() const { return output_names_; }

  // For graphs with one output (forward: also one input).
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  // The outputs in the order of their names, from the inputs in theirs.
  TensorList forward_outputs(const TensorList& xs) override;
  // By name. Ignores fields that are not inputs; throws UserError for a missing one. An unnamed output is
  // called "output".
  NamedTensors operator()(const NamedTensors& fields);
  using Module::operator();

  std::string describe() const override;

 private:
  // Each output with readers has a slot, and the last node's output.
  struct Node {
    ModulePtr module;
    std::vector<int> arguments;  // slots, or inputs of the graph as above
    std::vector<int> slots;      // by output number
    bool several = false;        // its outputs are taken by number
    bool taken = false;
    std::vector<int> last_uses;  // slots that are released after this node
  };

  int slot_of(const Source& source, const std::string& reader);
  void use(int slot, int reader);
  TensorList run(const TensorList& xs);

  std::vector<std::string> inputs_, output_names_;
  std::vector<int> outputs_;  // slots
  std::vector<Node> nodes_;
  std::vector<int> last_use_;  // by slot: the last node that reads it, or else its own node
};

}  // namespace tandem::nn
