// Guards around memory (core/guard.h), on or off for the life of a test.
#pragma once

#include "core/guard.h"

namespace tandem::test {

class Guards {
 public:
  explicit Guards(bool on) : before_(guard::turn(on)) {}
  ~Guards() {
    guard::turn(before_);
    guard::forget();
  }
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;

 private:
  bool before_;
};

}  // namespace tandem::test
