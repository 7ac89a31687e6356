#include "autograd/modes.h"

namespace tandem {

namespace {
thread_local bool grad_enabled = true;
thread_local bool higher_order = false;
}  // namespace

GradMode::GradMode(bool enabled) : ScopedValue(grad_enabled, enabled) {}
bool GradMode::enabled() { return grad_enabled; }

HigherOrder::HigherOrder() : ScopedValue(higher_order, true) {}
bool HigherOrder::active() { return higher_order; }

}  // namespace tandem
