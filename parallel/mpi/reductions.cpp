#include "parallel/arithmetic.h"
#include "parallel/mpi/library.h"

namespace tandem::parallel {

namespace {

// In the form of MPI_Op_create. Each dtype has its own op.
template <class T, Reduction reduction>
void combine_for_mpi(void* in, void* inout, int* count, MPI_Datatype*) {
  combine(static_cast<const T*>(in), static_cast<T*>(inout), static_cast<std::size_t>(*count), reduction);
}

template <class T, Reduction reduction>
MPI_Op own_op(const MpiLibrary& mpi) {
  static const MPI_Op op = [&mpi] {
    constexpr int kCommutes = 1;
    MPI_Op created = nullptr;
    check(mpi, mpi.Op_create(&combine_for_mpi<T, reduction>, kCommutes, &created), "MPI_Op_create");
    return created;
  }();
  return op;
}

template <class T>
MPI_Op own_op(const MpiLibrary& mpi, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return own_op<T, Reduction::sum>(mpi);
    case Reduction::min:
      return own_op<T, Reduction::min>(mpi);
    case Reduction::max:
      break;
  }
  return own_op<T, Reduction::max>(mpi);
}

}  // namespace

// MPI's minimum and maximum of floating types depend on the order of ranks if there is a NaN, and MPI lacks
// 16-bit floating types.
MpiReduction reduction_of(const MpiLibrary& mpi, DType dtype, Reduction reduction) {
  const bool sum = reduction == Reduction::sum;
  switch (dtype) {
    case DType::f64:
      return {mpi.f64, sum ? mpi.sum : own_op<double>(mpi, reduction)};
    case DType::f32:
      return {mpi.f32, sum ? mpi.sum : own_op<float>(mpi, reduction)};
    case DType::i64:
      return {mpi.i64, sum ? mpi.sum : reduction == Reduction::min ? mpi.min : mpi.max};
    case DType::f16:
      return {mpi.u16, own_op<Half>(mpi, reduction)};
    case DType::bf16:
      return {mpi.u16, own_op<BFloat16>(mpi, reduction)};
    default:
      throw InternalError("mpi", fmt::format("{} is not reduced", name_of(dtype)));
  }
}

}  // namespace tandem::parallel
