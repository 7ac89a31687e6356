#include "autograd/modes.h"

namespace tandem {

namespace {
thread_local bool grad_enabled = true;
thread_local bool record_later = false;
thread_local bool higher_order = false;
thread_local ComposedOps::Chosen composed_ops = nullptr;
}  // namespace

GradMode::GradMode(bool enabled) : ScopedValue(grad_enabled, enabled) {}
bool GradMode::enabled() { return grad_enabled; }
bool GradMode::records() { return grad_enabled && !record_later; }

RecordLater::RecordLater(bool later) : ScopedValue(record_later, later) {}
bool RecordLater::active() { return record_later; }

HigherOrder::HigherOrder() : ScopedValue(higher_order, true) {}
bool HigherOrder::active() { return higher_order; }

ComposedOps::ComposedOps(Chosen chosen) : ScopedValue(composed_ops, chosen) {}
bool ComposedOps::contains(const OpInfo& info) { return composed_ops && composed_ops(info); }

}  // namespace tandem
