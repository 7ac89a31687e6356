// Parts that the stand-ins for the vendors' libraries share: work on a stream, elements of any type as one,
// and limits that real libraries have.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace cuda_emulator {

// Puts a library's work on the stream, as one kernel. `what` it does decides how long it takes for events
// (control.h). Throws VendorError.
void enqueue_library(cudaStream_t stream, std::string_view call, const std::string& what,
                     std::function<void()> work);

// What the stand-ins offer for a problem, best first (control.h).
std::vector<std::string> algorithm_names();

// `count` elements widened to C; f32 rounded to TF32 (10 bits of mantissa, to nearest, ties away) if asked
// for.
template <class C>
std::vector<C> widened(const void* data, tandem::DType dtype, tandem::Index count, bool tf32);

// Rounds to nearest even on store.
template <class C>
void store(void* data, tandem::DType dtype, tandem::Index i, C value);

// As float; integers are no matter of libraries.
template <class C>
C load(const void* data, tandem::DType dtype, tandem::Index i);

void fill_with_nan(void* data, tandem::DType dtype, tandem::Index count);

// Whether the libraries refuse what they refuse for many shapes: a bias or an addition in 16-bit products,
// and in convolutions a bias, sums, an addition, or an f32 result of 16-bit operands (control.h).
bool are_libraries_narrow();
bool are_fusions_wrong();  // of convolutions

}  // namespace cuda_emulator
