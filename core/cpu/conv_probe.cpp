#include "core/cpu/conv_probe.h"

#include <utility>

namespace tandem::cpu {

namespace {

thread_local std::optional<ConvAlgorithm> forced;
thread_local ConvolutionTrace* trace = nullptr;

}  // namespace

ForcedConvolution::ForcedConvolution(ConvAlgorithm algorithm) : ScopedValue(forced, algorithm) {}
std::optional<ConvAlgorithm> ForcedConvolution::active() { return forced; }

ConvolutionTrace::ConvolutionTrace() : ScopedValue(trace, this) {}
ConvolutionTrace* ConvolutionTrace::active() { return trace; }

std::vector<std::string> ConvolutionTrace::take() { return std::exchange(algorithms_, {}); }

}  // namespace tandem::cpu
