// Per-thread scopes that change `apply`. They nest, and an exception restores the outer state.
#pragma once

#include "core/scoped_value.h"

namespace tandem {

struct OpInfo;

// Whether ops are recorded. On by default.
class GradMode : ScopedValue<bool> {
 public:
  explicit GradMode(bool enabled);
  static bool enabled();
  // Enabled, and not within RecordLater.
  static bool records();
};

// Scope in which ops are not recorded, although gradients are enabled: backward records them
// (autograd/recompute.h).
class RecordLater : ScopedValue<bool> {
 public:
  explicit RecordLater(bool later);
  static bool active();
};

// Disables recording, for evaluation and updates.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

// Runs fused ops as compositions of differentiable ops, for gradients of gradients.
class HigherOrder : ScopedValue<bool> {
 public:
  HigherOrder();
  static bool active();
};

// Runs the fused ops that `chosen` names as compositions, for translators that know only their parts.
class ComposedOps : ScopedValue<bool (*)(const OpInfo&)> {
 public:
  using Chosen = bool (*)(const OpInfo&);
  explicit ComposedOps(Chosen chosen);
  static bool contains(const OpInfo& info);
};

}  // namespace tandem
