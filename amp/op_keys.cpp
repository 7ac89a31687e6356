#include "amp/op_keys.h"

#include "amp/planned_policy.h"

namespace tandem::amp {

OpKeys::OpKeys(nn::Module& model) : observed_(*this) {
  model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
}

std::string OpKeys::innermost() const {
  return running_.empty() ? std::string(kOutsideModel) : running_.back();
}

// A module outside the model counts as its caller.
void OpKeys::enter(nn::Module& module) {
  const auto found = paths_.find(&module);
  running_.push_back(found == paths_.end() ? innermost() : found->second);
}

plan::OpKey OpKeys::next(const char* op) {
  plan::OpKey key{.path = innermost(), .op = op};
  key.call = calls_[{key.path, key.op}]++;
  return key;
}

}  // namespace tandem::amp
