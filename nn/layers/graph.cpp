#include "nn/layers/graph.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/suggest.h"

namespace tandem::nn {

Graph::Graph(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {
  require(!inputs_.empty(), "graph", "a graph needs an input");
}

// The slot of an earlier node's output that `reader` takes; an input of the graph stays unchanged.
int Graph::slot_of(const Source& source, const std::string& reader) {
  require(source.node < static_cast<int>(nodes_.size()), "graph",
          "node \"{}\" takes node {}, which comes after it", reader, source.node);
  if (source.node < 0) {
    require(source.node >= input(static_cast<int>(inputs_.size()) - 1) && source.output == Source::kOnly,
            "graph", "node \"{}\" takes input {}, the graph has {}", reader, kInput - source.node,
            inputs_.size());
    return source.node;
  }
  Node& node = nodes_[static_cast<std::size_t>(source.node)];
  const bool several = source.output != Source::kOnly;
  require(!node.taken || node.several == several, "graph",
          "node \"{}\" takes the output of node {} {} a number, unlike another node", reader, source.node,
          several ? "by" : "without");
  node.taken = true;
  node.several = several;
  const auto number = static_cast<std::size_t>(several ? source.output : 0);
  while (node.slots.size() <= number) {
    node.slots.push_back(static_cast<int>(last_use_.size()));
    last_use_.push_back(source.node);
  }
  return node.slots[number];
}

void Graph::use(int slot, int reader) {
  int& last = last_use_[static_cast<std::size_t>(slot)];
  if (last == reader) return;  // a node may take another one twice
  std::erase(nodes_[static_cast<std::size_t>(last)].last_uses, slot);
  last = reader;
}

int Graph::add(const std::string& name, ModulePtr module, const std::vector<Source>& sources) {
  const int index = static_cast<int>(nodes_.size());
  require(!sources.empty(), "graph", "node \"{}\" has no input", name);
  ensure(output_names_.empty(), "graph", "node \"{}\" comes after the outputs were named", name);
  std::vector<int> arguments;
  for (const Source& source : sources) arguments.push_back(slot_of(source, name));
  add_child(name, module);
  for (const int slot : arguments) {
    if (slot >= 0) use(slot, index);
  }
  Node node{std::move(module), std::move(arguments), {static_cast<int>(last_use_.size())}, false, false, {}};
  for (int slot = 0; slot < static_cast<int>(last_use_.size()); ++slot) {
    if (last_use_[static_cast<std::size_t>(slot)] == index) node.last_uses.push_back(slot);
  }
  last_use_.push_back(index);
  nodes_.push_back(std::move(node));
  return index;
}

void Graph::set_outputs(const std::vector<std::pair<std::string, Source>>& outputs) {
  ensure(output_names_.empty() && !outputs.empty(), "graph", "outputs must be named once, and at least one");
  for (const auto& [name, source] : outputs) {
    const int slot = slot_of(source, "output " + name);
    require(slot >= 0, "graph", "output \"{}\" is an input", name);
    require(std::ranges::count(output_names_, name) == 0, "graph", "two outputs are called \"{}\"", name);
    std::erase(nodes_[static_cast<std::size_t>(last_use_[static_cast<std::size_t>(slot)])].last_uses, slot);
    output_names_.push_back(name);
    outputs_.push_back(slot);
  }
}

TensorList Graph::run(const TensorList& xs) {
  require(xs.size() == inputs_.size(), describe(), "takes {} inputs, got {}", inputs_.size(), xs.size());
  if (nodes_.empty()) return xs;
  TensorList held(last_use_.size()), arguments;
  for (const Node& node : nodes_) {
    arguments.clear();
    for (const int slot : node.arguments)
      arguments.push_back(slot < 0 ? xs[static_cast<std::size_t>(kInput - slot)]
                                   : held[static_cast<std::size_t>(slot)]);
    for (const int done : node.last_uses)
      held[static_cast<std::size_t>(done)] = {};  // the arguments hold them until the next node
    if (!node.several) {
      held[static_cast<std::size_t>(node.slots[0])] =
          arguments.size() == 1 ? (*node.module)(arguments[0]) : (*node.module)(arguments);
      continue;
    }
    TensorList results = node.module->all_outputs(arguments);
    require(results.size() >= node.slots.size(), "graph", "output {} of {} is taken, it has {}",
            node.slots.size() - 1, node.module->describe(), results.size());
    for (std::size_t i = 0; i < node.slots.size(); ++i)
      held[static_cast<std::size_t>(node.slots[i])] = std::move(results[i]);
  }
  if (outputs_.empty()) return {held[static_cast<std::size_t>(nodes_.back().slots[0])]};
  TensorList results;
  for (const int slot : outputs_) results.push_back(held[static_cast<std::size_t>(slot)]);
  return results;
}

Tensor Graph::forward(const Tensor& x) { return forward_all({x}); }

Tensor Graph::forward_all(const TensorList& xs) {
  require(outputs_.size() <= 1, describe(), "has {} outputs: ask for all of them, or by name",
          outputs_.size());
  return run(xs).front();
}

TensorList Graph::forward_outputs(const TensorList& xs) { return run(xs); }

NamedTensors Graph::operator()(const NamedTensors& fields) {
  TensorList xs;
  for (const std::string& name : inputs_) {
    const auto found = fields.find(name);
    if (found == fields.end()) {
      std::vector<std::string> known;
      for (const auto& [field, tensor] : fields) known.push_back(field);
      throw UserError(describe(),
                      fmt::format("takes \"{}\", which was not given{}", name, did_you_mean(name, known)));
    }
    xs.push_back(found->second);
  }
  TensorList results = all_outputs(xs);
  NamedTensors named;
  for (std::size_t i = 0; i < results.size(); ++i)
    named.emplace(output_names_.empty() ? "output" : output_names_[i], std::move(results[i]));
  return named;
}

std::string Graph::describe() const {
  if (inputs_.size() == 1 && outputs_.empty()) return fmt::format("Graph({} nodes)", nodes_.size());
  return fmt::format("Graph({} nodes, {} → {})", nodes_.size(), fmt::join(inputs_, " + "),
                     outputs_.empty() ? "output" : fmt::format("{}", fmt::join(output_names_, " + ")));
}

}  // namespace tandem::nn
