// A precision policy that only applies the cast rule of each op.
#pragma once

#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"

namespace tandem::test {

class RulePolicy final : public PrecisionPolicy {
 public:
  explicit RulePolicy(DType low) : low_(low) {}

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    if (!is_floating(common) || common == DType::f64) return common;
    switch (info.rule) {
      case CastRule::lower:
        cast_data(info, inputs, low_);
        return low_;
      case CastRule::fp32:
        return DType::f32;
      case CastRule::widest:
        cast_data(info, inputs, common);
        return common;
      case CastRule::banned:
        throw UserError(info.name, "is refused in a 16-bit region");
      default:
        return common;
    }
  }

 private:
  static void cast_data(const OpInfo& info, std::span<Tensor> inputs, DType to) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Role role = i < info.roles.size() ? info.roles[i] : Role::data;
      if (role == Role::data && inputs[i].defined() && is_floating(inputs[i].dtype()))
        inputs[i] = cast(inputs[i], to);
    }
  }

  DType low_;
};

}  // namespace tandem::test
