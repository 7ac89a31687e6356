// Whether gradients of 16-bit tensors are kept in f32.
#pragma once

namespace tandem {

// What is recorded in the scope gives 16-bit results whose gradients are f32: backward adds and hands them on
// unrounded. Values of forward are those without the scope, to the bit. Per thread, off by default; scopes
// nest, the innermost counts.
class WideGradients {
 public:
  explicit WideGradients(bool enabled);
  ~WideGradients();
  WideGradients(const WideGradients&) = delete;
  WideGradients& operator=(const WideGradients&) = delete;
  static bool enabled();

 private:
  bool outer_;
};

}  // namespace tandem
