// Keys of the ops of a forward, by which several passes over one model identify the same op.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "amp/plan/graph.h"
#include "nn/module.h"

namespace tandem::amp {

// Tracks the running module of the model during its lifetime, on the thread that made it.
class OpKeys final : public nn::ModuleObserver {
 public:
  explicit OpKeys(nn::Module& model);

  // The key of the next call of `op` by the innermost running module. Call once for each call of the op, in
  // order: a key counts the calls before it.
  plan::OpKey next(const char* op);

  void enter(nn::Module& module) override;
  void leave(nn::Module&, const Tensor&) override { running_.pop_back(); }

 private:
  std::string innermost() const;

  std::unordered_map<const nn::Module*, std::string> paths_;  // the first of each
  std::vector<std::string> running_;
  std::map<std::pair<std::string, std::string>, int> calls_;
  nn::ModuleObserverScope observed_;
};

}  // namespace tandem::amp
