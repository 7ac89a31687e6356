// Per-thread scopes that change `apply`. They nest, and an exception restores the outer state.
#pragma once

namespace tandem {

// Whether ops are recorded. On by default.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  static bool enabled();

 private:
  bool outer_;
};

// Disables recording, for evaluation and updates.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

// Runs fused ops as compositions of differentiable ops, for gradients of gradients.
class HigherOrder {
 public:
  HigherOrder();
  ~HigherOrder();
  HigherOrder(const HigherOrder&) = delete;
  HigherOrder& operator=(const HigherOrder&) = delete;
  static bool active();

 private:
  bool outer_;
};

}  // namespace tandem
