// Modules in a graph.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace tandem::nn {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// A directed acyclic graph of modules over named inputs: one, unless told otherwise. Nodes are added in an
// order in which they can run; each names the outputs it takes of earlier ones. The last node's output is
// that of the graph, unless set_outputs names others. A tensor is let go of after the last node that reads
// it.
class Graph final : public Module {
 public:
  static constexpr int kInput = -1;  // the first input of the graph
  static constexpr int input(int number) { return kInput - number; }

  // What a node takes: an input of the graph, the output of a node, or one output of a node that has several
  // (Module::all_outputs). A node is taken in one of the two ways.
  struct Source {
    static constexpr int kOnly = -1;
    int node;
    int output;
    Source(int of, int number = kOnly) : node(of), output(number) {}  // an index is a source
  };

  explicit Graph(std::vector<std::string> inputs = {"input"});

  // Returns the index of the new node. Throws UserError when a source is no input and no earlier node.
  int add(const std::string& name, ModulePtr module, const std::vector<Source>& sources);
  // Names the outputs; after the last node.
  void set_outputs(const std::vector<std::pair<std::string, Source>>& outputs);

  const std::vector<std::string>& inputs() const { return inputs_; }
  // Empty unless they were named.
  const std::vector<std::string>& outputs() const { return output_names_; }

  // With one output; forward with one input, too.
  Tensor forward(const Tensor& x) override;
  Tensor forward_all(const TensorList& xs) override;
  // The outputs in the order they were named in, from the inputs in theirs.
  TensorList forward_outputs(const TensorList& xs) override;
  // By name. Fields that are no input are left alone; a missing one is a UserError. An output without a name
  // is called "output".
  NamedTensors operator()(const NamedTensors& fields);
  using Module::operator();

  std::string describe() const override;

 private:
  // Each output that somebody reads has a slot, and the last node's has one.
  struct Node {
    ModulePtr module;
    std::vector<int> arguments;  // slots, or inputs of the graph as above
    std::vector<int> slots;      // by number of the output
    bool several = false;        // its outputs are taken by number
    bool taken = false;
    std::vector<int> last_uses;  // slots that nobody needs after this node
  };

  int slot_of(const Source& source, const std::string& reader);
  void use(int slot, int reader);
  TensorList run(const TensorList& xs);

  std::vector<std::string> inputs_, output_names_;
  std::vector<int> outputs_;  // slots
  std::vector<Node> nodes_;
  std::vector<int> last_use_;  // by slot: the latest node that reads it, or the one it belongs to
};

}  // namespace tandem::nn
