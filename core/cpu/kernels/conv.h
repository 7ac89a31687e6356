// Convolution by im2col and a matrix product, for f64 and for shapes that oneDNN cannot express.
#pragma once

#include "core/cpu/onednn.h"

namespace tandem::cpu::TANDEM_LEVEL {

// All tensors of a call are f32, or all are f64; bias may be absent. Outputs are overwritten.
void generic_conv2d(const onednn::Convolution& problem, const Tensor& x, const Tensor& filter,
                    const Tensor& bias, const Tensor& y);
void generic_input_gradient(const onednn::Convolution& problem, const Tensor& dy, const Tensor& filter,
                            const Tensor& dx);
void generic_filter_gradient(const onednn::Convolution& problem, const Tensor& x, const Tensor& dy,
                             const Tensor& dfilter);

}  // namespace tandem::cpu::TANDEM_LEVEL
