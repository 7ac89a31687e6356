#include "autograd/observers.h"

namespace tandem {

namespace {
thread_local PrecisionPolicy* active_policy = nullptr;
thread_local const ObserverScope* innermost_observer = nullptr;
}  // namespace

PrecisionScope::PrecisionScope(PrecisionPolicy* policy) : ScopedValue(active_policy, policy) {}
PrecisionPolicy* PrecisionScope::active() { return active_policy; }

ObserverScope::ObserverScope(OpObserver& o) : observer(o), outer(innermost_observer) {
  innermost_observer = this;
}
ObserverScope::~ObserverScope() { innermost_observer = outer; }
const ObserverScope* ObserverScope::innermost() { return innermost_observer; }

}  // namespace tandem
