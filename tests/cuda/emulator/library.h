// Common parts of the stand-ins: work on a stream, conversions, and restrictions of the real libraries.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace cuda_emulator {

// Enqueues library work as one kernel. `what` determines its duration (control.h). Throws VendorError.
void enqueue_library(cudaStream_t stream, std::string_view call, const std::string& what,
                     std::function<void()> work);

// Algorithms for a problem, best first (control.h).
std::vector<std::string> algorithm_names();

// `count` elements widened to C; optionally f32 rounded to TF32 (10 bits of mantissa, to nearest, ties away).
template <class C>
std::vector<C> widened(const void* data, tandem::DType dtype, tandem::Index count, bool tf32);

// Rounds to nearest even.
template <class C>
void store(void* data, tandem::DType dtype, tandem::Index i, C value);

// Loads as float; integers are not supported.
template <class C>
C load(const void* data, tandem::DType dtype, tandem::Index i);

void fill_with_nan(void* data, tandem::DType dtype, tandem::Index count);

// Whether the stand-ins reject what the libraries reject for many shapes: a bias or accumulation in 16-bit
// products; a bias, sums, accumulation, or an f32 result of 16-bit operands in convolutions (control.h).
bool are_libraries_narrow();
bool are_fusions_wrong();  // fused convolutions give wrong results
bool is_attention_offered();

}  // namespace cuda_emulator
