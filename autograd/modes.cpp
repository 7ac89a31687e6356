#include "autograd/modes.h"

#include "core/library_copies.h"

namespace tandem {

namespace detail {
// Not inlined, and exported like the scopes below: if the program's symbols replace a plugin's, this one is
// replaced too.
[[gnu::noinline]] const void* place_of_modes();
}  // namespace detail

namespace {
thread_local bool grad_enabled = true;
thread_local bool higher_order = false;
const char place = 0;
const LibraryCopy copy(detail::place_of_modes());
}  // namespace

const void* detail::place_of_modes() { return &place; }

GradMode::GradMode(bool enabled) : outer_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = outer_; }
bool GradMode::enabled() {
  LibraryCopy::require_one();
  return grad_enabled;
}

HigherOrder::HigherOrder() : outer_(higher_order) { higher_order = true; }
HigherOrder::~HigherOrder() { higher_order = outer_; }
bool HigherOrder::active() { return higher_order; }

}  // namespace tandem
