// Products of bf16 or f16 matrices in AMX tiles, for CPUs of level `amx`.
#pragma once

#include "core/cpu/kernels/amx.h"
#include "core/cpu/onednn.h"

#if defined(TANDEM_AMX)
namespace tandem::cpu::TANDEM_LEVEL {

// c[m,n] = op(a)·op(b) (+ bias), or += if p.accumulate. p as for oneDNN's primitive (onednn.h), with batch 1,
// k > 0 and dtype bf16 or f16; c is f32 or has that dtype. Sums over k are f32, in an order that depends on k
// alone; c is rounded once.
void multiply_in_tiles(const onednn::Matmul& p, const void* a, const void* b, const float* bias, void* c);

}  // namespace tandem::cpu::TANDEM_LEVEL
#endif
