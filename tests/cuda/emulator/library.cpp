#include "tests/cuda/emulator/library.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/convert.h"
#include "core/cuda/launch.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/stream.h"

namespace cuda_emulator {

using tandem::DType;
using tandem::Index;

namespace {

template <class Visit>
auto visit(DType dtype, Visit&& visit_type) {
  switch (dtype) {
    case DType::f64:
      return visit_type(double{});
    case DType::f16:
      return visit_type(tandem::Half{});
    case DType::bf16:
      return visit_type(tandem::BFloat16{});
    default:
      return visit_type(float{});
  }
}

float rounded_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace

void enqueue_library(cudaStream_t stream, std::string_view call_name, const std::string& what,
                     std::function<void()> work) {
  const Call call;
  ++counters().launches;
  tandem::cuda::check(call.result(enqueue(stream,
                                          [what, work = std::move(work)] {
                                            ++counters().executed;
                                            work();
                                            spend(seconds_of(what));
                                          })),
                      call_name);
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (int i = 1; i <= algorithm_count(); ++i) names.push_back("emulated-" + std::to_string(i));
  return names;
}

template <class C>
C load(const void* data, DType dtype, Index i) {
  return visit(dtype, [&]<class T>(T) { return tandem::convert<C>(static_cast<const T*>(data)[i]); });
}

template <class C>
void store(void* data, DType dtype, Index i, C value) {
  visit(dtype, [&]<class T>(T) { static_cast<T*>(data)[i] = tandem::convert<T>(value); });
}

template <class C>
std::vector<C> widened(const void* data, DType dtype, Index count, bool tf32) {
  std::vector<C> result(static_cast<std::size_t>(count));
  visit(dtype, [&]<class T>(T) {
    const T* const source = static_cast<const T*>(data);
    for (Index i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = tandem::convert<C>(source[i]);
  });
  if (tf32 && dtype == DType::f32) {
    for (C& value : result) value = rounded_to_tf32(static_cast<float>(value));
  }
  return result;
}

void fill_with_nan(void* data, DType dtype, Index count) {
  std::memset(data, 0xff, static_cast<std::size_t>(count) * tandem::size_of(dtype));
}

template float load(const void*, DType, Index);
template double load(const void*, DType, Index);
template void store(void*, DType, Index, float);
template void store(void*, DType, Index, double);
template std::vector<float> widened(const void*, DType, Index, bool);
template std::vector<double> widened(const void*, DType, Index, bool);

}  // namespace cuda_emulator
