// Value of a variable within a scope.
#pragma once

#include <utility>

namespace tandem {

// Sets `variable` and restores it at the end of the scope, also on an exception. Scopes nest. Base of classes
// that set a variable of their thread.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value)
      : variable_(variable), outer_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(outer_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T outer_;
};

}  // namespace tandem
