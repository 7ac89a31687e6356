// Module: a tree of layers with named parameters, statistics and children.
//
// A module registers what it owns in its constructor; order of registration is the order everything is listed in, and
// names are dotted paths from the root ("layer1.0.conv1.weight"), those of torchvision where it has the same model.
// Modules are created on the heap and not copied; modules know nothing of precision.
#pragma once

#include <functional>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "autograd/leaf.h"
#include "autograd/ops/norm.h"

namespace tandem::nn {

// State that is not trained by gradient. Training writes `next`; a committed step makes it live (optim/step.h).
struct Statistic {
  std::string name;   // "bn1.running_mean"
  Tensor live, next;  // same shape; evaluation reads `live`
};

class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // One input, one output. A module that takes several overrides forward_all and throws here.
  virtual Tensor forward(const Tensor& x) = 0;
  virtual Tensor forward_all(const TensorList& xs);
  Tensor operator()(const Tensor& x) { return forward(x); }

  // Every parameter of the tree, each once however often it is shared; also writes their names.
  std::vector<Parameter> parameters() const;
  std::vector<Statistic> statistics() const;
  // Direct children with their names.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // Visits this module and everything below it, parents first; the root's path is "".
  void visit(const std::function<void(const std::string& path, Module& module)>& visitor);

  // Training (the default) or evaluation: dropout and batch norm differ.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  // Parameters whose whole name contains a match stop (or resume) collecting gradients; returns how many matched.
  int freeze(const std::regex& names, bool frozen = true);

  // "Conv2d(3 → 64, 7×7, stride 2, padding 3)"
  virtual std::string describe() const = 0;

 protected:
  Module() = default;

  Parameter& add_parameter(std::string name, Parameter parameter);
  // Registers running statistics; later changes go through the returned index-stable tensors.
  void add_statistic(std::string name, Tensor live, Tensor next);
  template <class M>
  std::shared_ptr<M> add_child(std::string name, std::shared_ptr<M> child) {
    children_.emplace_back(std::move(name), child);
    return child;
  }

 private:
  std::vector<std::pair<std::string, Parameter>> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

using ModulePtr = std::shared_ptr<Module>;

}  // namespace tandem::nn
