// Stand-in for core/cuda/blas.h: products with sums in f32 (f64) in the order of k, rounded once.
#include "core/cuda/blas.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/library.h"

namespace tandem::cuda {

namespace {

struct Operands {
  const void *a, *b, *bias;
  void* c;
};

// One matrix of the batch; a is dense [m,k] and b dense [k,n]. The first element of c has index `first`.
template <class C>
void multiply_one(const Product& p, const C* a, const C* b, const Operands& at, Index first) {
  cpu::parallel_for(true, p.m, [&](Index i) {
    std::vector<C> sums(static_cast<std::size_t>(p.n));
    for (Index l = 0; l < p.k; ++l) {
      const C factor = a[i * p.k + l];
      const C* const row = b + l * p.n;
      for (Index j = 0; j < p.n; ++j) sums[static_cast<std::size_t>(j)] += factor * row[j];
    }
    for (Index j = 0; j < p.n; ++j) {
      C value = sums[static_cast<std::size_t>(j)];
      const Index position = first + i * p.pitch_c() + j;
      if (p.bias) value += cuda_emulator::load<C>(at.bias, p.out, j);
      if (p.accumulate) value += cuda_emulator::load<C>(at.c, p.out, position);
      cuda_emulator::store(at.c, p.out, position, value);
    }
  });
}

// Transposes [columns, rows] to [rows, columns].
template <class C>
std::vector<C> transposed(const std::vector<C>& x, Index rows, Index columns) {
  std::vector<C> result(x.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j)
      result[static_cast<std::size_t>(i * columns + j)] = x[static_cast<std::size_t>(j * rows + i)];
  }
  return result;
}

template <class C>
void multiply_all(const Product& p, const Operands& at, bool tf32) {
  const auto bytes = static_cast<Index>(size_of(p.in));
  const auto matrix = [&](const void* data, Index rows, Index columns, Index pitch, bool turned) {
    const Index stored_rows = turned ? columns : rows, stored_columns = turned ? rows : columns;
    std::vector<C> values;
    for (Index row = 0; row < stored_rows; ++row) {
      const void* const from = static_cast<const char*>(data) + row * pitch * bytes;
      const std::vector<C> of_row = cuda_emulator::widened<C>(from, p.in, stored_columns, tf32);
      values.insert(values.end(), of_row.begin(), of_row.end());
    }
    return turned ? transposed(values, rows, columns) : values;
  };
  const auto matrix_at = [&](const void* base, Index stride, Index batch) {
    return static_cast<const char*>(base) + batch * stride * bytes;
  };
  for (Index batch = 0; batch < p.batch; ++batch) {
    const std::vector<C> a = matrix(matrix_at(at.a, p.stride_a, batch), p.m, p.k, p.pitch_a(), p.transpose_a);
    const std::vector<C> b = matrix(matrix_at(at.b, p.stride_b, batch), p.k, p.n, p.pitch_b(), p.transpose_b);
    multiply_one(p, a.data(), b.data(), at, batch * p.m * p.pitch_c());
  }
}

// Poisons the elements of c, but not the gaps between its rows.
void forget_result(const Product& p, void* c) {
  char* row = static_cast<char*>(c);
  for (Index i = 0; i < p.batch * p.m; ++i, row += p.pitch_c() * static_cast<Index>(size_of(p.out)))
    cuda_emulator::fill_with_nan(row, p.out, p.n);
}

bool has_aligned_rows(const Product& p) {
  const auto aligned = [](Index pitch, DType dtype) {
    return pitch * static_cast<Index>(size_of(dtype)) % 16 == 0;
  };
  return aligned(p.pitch_a(), p.in) && aligned(p.pitch_b(), p.in) &&
         (!is_16bit(p.out) || aligned(p.pitch_c(), p.out));
}

}  // namespace

std::string to_string(const Product& p) {
  return fmt::format("{} x {} [{},{}]{}·[{},{}]{} -> {}{}{}", p.batch, name_of(p.in), p.m, p.k,
                     p.transpose_a ? "ᵀ" : "", p.k, p.n, p.transpose_b ? "ᵀ" : "", name_of(p.out),
                     p.bias ? " + bias" : "", p.rows_text());
}

std::string blas_version() { return "emulated products"; }

Blas::Blas(CudaBackend& backend) : backend_(backend) {}
Blas::~Blas() = default;

bool Blas::multiply(const Product& p, const void* a, const void* b, const void* bias, void* c,
                    bool required) {
  const bool f64 = p.in == DType::f64;
  const bool known = f64 ? p.out == DType::f64 && !p.bias : p.out == p.in || p.out == DType::f32;
  const bool refused =
      !required && is_16bit(p.in) && (p.bias || p.accumulate) && cuda_emulator::are_libraries_narrow();
  if (!known || refused) {
    if (required) throw VendorError("cublas", "no algorithm: " + to_string(p));
    return false;
  }
  if (p.bias && reinterpret_cast<std::uintptr_t>(bias) % 16 != 0)
    cuda_emulator::fail("a bias is not aligned to 16 bytes");
  if (is_16bit(p.in) && !has_aligned_rows(p)) ++cuda_emulator::counters().unaligned_products;
  const bool tf32 = p.in == DType::f32 && backend_.rules().allow_tf32;
  const std::vector<std::string> names = cuda_emulator::algorithm_names();
  const auto run = [&](std::size_t algorithm, void* to) {
    const Tensor workspace = backend_.workspace({4096}, DType::u8);
    cuda_emulator::enqueue_library(backend_.stream(), "matmul",
                                   fmt::format("matmul: {}, {}", to_string(p), names[algorithm]),
                                   [p, at = Operands{a, b, bias, to}, tf32, room = workspace.raw()] {
                                     cuda_emulator::fill_with_nan(room, DType::u8, 4096);
                                     if (!p.accumulate) forget_result(p, at.c);
                                     if (p.in == DType::f64) return multiply_all<double>(p, at, false);
                                     multiply_all<float>(p, at, tf32);
                                   });
    return true;
  };
  const auto alignment_of = [](const void* address) {
    return static_cast<std::uint32_t>(std::min<std::uintptr_t>(
        16, reinterpret_cast<std::uintptr_t>(address) & ~(reinterpret_cast<std::uintptr_t>(address) - 1)));
  };
  // No plans are cached; problems in the algorithm table are not timed again.
  const Alignment alignment{alignment_of(a), alignment_of(b), alignment_of(c)};
  run(names.size() > 1 && may_time() ? choose(p, alignment, tf32, names, c, run) : 0, c);
  return true;
}

}  // namespace tandem::cuda
