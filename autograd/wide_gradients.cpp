#include "autograd/wide_gradients.h"

namespace tandem {

namespace {
thread_local bool wide_gradients = false;
}  // namespace

WideGradients::WideGradients(bool enabled) : outer_(wide_gradients) { wide_gradients = enabled; }
WideGradients::~WideGradients() { wide_gradients = outer_; }
bool WideGradients::enabled() { return wide_gradients; }

}  // namespace tandem
