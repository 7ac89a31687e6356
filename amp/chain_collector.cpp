#include "amp/chain_collector.h"

#include <algorithm>

namespace tandem::amp {

namespace {

// Keeps the order of `into`, which is that of forward.
void add(std::vector<GradientCollector::Layer>& into, const std::vector<GradientCollector::Layer>& layers) {
  for (const GradientCollector::Layer& layer : layers) {
    auto found = std::ranges::find(into, layer.name, &GradientCollector::Layer::name);
    if (found == into.end()) found = into.insert(into.end(), {.name = layer.name});
    found->activations.add(layer.activations);
    found->weights.add(layer.weights);
  }
}

}  // namespace

ChainCollector::ChainCollector(nn::Module& model)
    : model_(model), gradients_(model), observed_ops_(*this), observed_modules_(*this) {
  model.visit([&](const std::string& path, nn::Module& module) {
    paths_.emplace(&module, path.empty() ? kWholeModel : path);
  });
}

Tensor ChainCollector::passed_on(nn::Module& module, const Tensor& output) {
  const auto path = paths_.find(&module);
  if (path == paths_.end()) return output;
  Tensor same = scale_gradient(output, 0);
  if (same.requires_grad()) crossed_.emplace(node_of(same), path->second);
  return same;
}

// A module that is called several times gets no border, because its outputs are ambiguous.
void ChainCollector::begin_backward(const Tensor& loss) {
  std::unordered_map<std::string, int> calls;
  for (const auto& [node, path] : crossed_) ++calls[path];
  const BackwardChain chain = chain_of(loss);
  Pass& pass = passes_.emplace_back();
  std::vector<std::size_t> link_of{0};  // of the chain's links
  for (const Node* const node : chain.borders) {
    const auto found = crossed_.find(node);
    if (found != crossed_.end() && calls[found->second] == 1) {
      expected_.emplace(node, pass.borders.size());
      pass.borders.push_back(found->second);
    }
    link_of.push_back(pass.borders.size());
  }
  for (const auto& [leaf, link] : chain.leaves) pass.leaves.emplace(leaf, link_of[link]);
  pass.behind.resize(pass.borders.size());
  gradients_.take();
}

void ChainCollector::after_backward(const Node& node, std::span<const Tensor> input_gradients) {
  const auto found = expected_.find(&node);
  if (found == expected_.end()) return;
  Pass& pass = passes_.back();
  pass.links.push_back(gradients_.take());
  pass.behind[found->second].add(input_gradients[0]);
}

void ChainCollector::end_backward() {
  Pass& pass = passes_.back();
  pass.links.push_back(gradients_.take());
  pass.links.resize(pass.borders.size() + 1);  // for a backward that ended early: its gradients were zero
  crossed_.clear();
  expected_.clear();
}

std::vector<GradientCollector::Layer> ChainCollector::layers() const {
  Layers all;
  for (const Pass& pass : passes_)
    for (const Layers& link : pass.links) add(all, link);
  std::erase_if(all, [](const GradientCollector::Layer& layer) {
    return layer.activations.total() + layer.weights.total() == 0;
  });
  return all;
}

std::vector<std::string> ChainCollector::borders_of_all() const {
  if (passes_.empty()) return {};
  const auto shared = [&](std::vector<std::string> borders) {
    std::erase_if(borders, [&](const std::string& border) {
      return std::ranges::any_of(passes_, [&](const Pass& pass) {
        return std::ranges::find(pass.borders, border) == pass.borders.end();
      });
    });
    return borders;
  };
  const std::vector<std::string> first = shared(passes_.front().borders);
  for (const Pass& pass : passes_)
    if (shared(pass.borders) != first) return {};
  return first;
}

BackwardLinks ChainCollector::links() const {
  const std::vector<std::string> borders = borders_of_all();
  BackwardLinks all;
  all.links.push_back({.border = "loss"});
  for (const std::string& border : borders) all.links.push_back({.border = border});
  std::unordered_map<const Node*, std::size_t> leaves;
  for (const Pass& pass : passes_) {
    std::vector<std::size_t> link_of{0};  // of the pass's links
    for (std::size_t i = 0; i < pass.borders.size(); ++i) {
      const auto found = std::ranges::find(borders, pass.borders[i]);
      if (found != borders.end()) {
        const auto link = static_cast<std::size_t>(found - borders.begin()) + 1;
        all.links[link].behind.add(pass.behind[i]);
        link_of.push_back(link);
      } else {
        link_of.push_back(link_of.back());
      }
    }
    for (std::size_t i = 0; i < pass.links.size(); ++i) add(all.links[link_of[i]].layers, pass.links[i]);
    for (const auto& [leaf, link] : pass.leaves) leaves.emplace(leaf, link_of[link]);
  }
  for (const Parameter& parameter : model_.parameters()) {
    const auto found = leaves.find(&parameter.leaf());
    if (found != leaves.end()) all.links[found->second].parameters.push_back(parameter.name());
  }
  return all;
}

}  // namespace tandem::amp
