#include "autograd/modes.h"

namespace tandem {

namespace {
thread_local bool grad_enabled = true;
thread_local bool higher_order = false;
}  // namespace

GradMode::GradMode(bool enabled) : outer_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = outer_; }
bool GradMode::enabled() { return grad_enabled; }

HigherOrder::HigherOrder() : outer_(higher_order) { higher_order = true; }
HigherOrder::~HigherOrder() { higher_order = outer_; }
bool HigherOrder::active() { return higher_order; }

}  // namespace tandem
