// Scopes that change what `apply` does on this thread. They nest, and an exception restores the outer state.
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

// No tape: for evaluation and for updates.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

// Fused ops run as compositions of differentiable ones, so that gradients of gradients exist.
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
