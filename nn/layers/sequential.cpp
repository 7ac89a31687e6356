#include "nn/layers/sequential.h"

#include <algorithm>

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

bool Sequential::take_padded_images(Index channels) {
  return size() > 0 && children().front().second->take_padded_images(channels);
}

std::string Sequential::describe() const { return fmt::format("Sequential({} layers)", size()); }

int Graph::add(const std::string& name, ModulePtr module, std::vector<int> inputs) {
  const int index = static_cast<int>(nodes_.size());
  require(!inputs.empty(), "graph", "node \"{}\" has no input", name);
  for (int input : inputs) {
    require(input >= kInput && input < index, "graph", "node \"{}\" takes node {}, which comes after it",
            name, input);
    if (input == kInput || last_use_[input] == index) continue;  // one node may take another one twice
    auto& previous = nodes_[last_use_[input]].last_uses;
    std::erase(previous, input);
    last_use_[input] = index;
  }
  add_child(name, module);
  Node node{std::move(module), std::move(inputs), {}};
  for (int earlier = 0; earlier < index; ++earlier) {
    if (last_use_[earlier] == index) node.last_uses.push_back(earlier);
  }
  nodes_.push_back(std::move(node));
  last_use_.push_back(index);
  return index;
}

Tensor Graph::forward(const Tensor& x) {
  if (nodes_.empty()) return x;
  TensorList outputs(nodes_.size());
  TensorList arguments;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    arguments.clear();
    for (int input : node.inputs) arguments.push_back(input == kInput ? x : outputs[input]);
    for (int done : node.last_uses) outputs[done] = {};  // the arguments hold them until the next node
    outputs[i] = arguments.size() == 1 ? (*node.module)(arguments[0]) : (*node.module)(arguments);
  }
  return outputs.back();
}

bool Graph::take_padded_images(Index channels) {
  Node* only = nullptr;
  for (Node& node : nodes_) {
    if (std::ranges::count(node.inputs, kInput) == 0) continue;
    if (only || node.inputs.size() > 1) return false;
    only = &node;
  }
  return only && only->module->take_padded_images(channels);
}

std::string Graph::describe() const { return fmt::format("Graph({} nodes)", nodes_.size()); }

}  // namespace tandem::nn
