// Open MPI's library as far as it is used, opened at run time: a machine without it runs the same program.
// Only files of this folder include this header; it needs mpi.h, whose types and constants are Open MPI's.
#pragma once

// Without the bindings for C++ that are gone from MPI 3.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <string_view>

#include "parallel/communicator.h"

namespace tandem::parallel {

// Functions under the names of MPI less their prefix. mpi.h's handles are addresses of the library's data,
// which is why they are here, too.
struct MpiLibrary {
  decltype(&::MPI_Init_thread) Init_thread;
  decltype(&::MPI_Finalize) Finalize;
  decltype(&::MPI_Initialized) Initialized;
  decltype(&::MPI_Comm_rank) Comm_rank;
  decltype(&::MPI_Comm_size) Comm_size;
  decltype(&::MPI_Comm_set_errhandler) Comm_set_errhandler;
  decltype(&::MPI_Error_string) Error_string;
  decltype(&::MPI_Get_library_version) Get_library_version;
  decltype(&::MPI_Op_create) Op_create;
  decltype(&::MPI_Testall) Testall;
  decltype(&::MPI_Iprobe) Iprobe;
  decltype(&::MPI_Isend) Isend;
  decltype(&::MPI_Irecv) Irecv;
  decltype(&::MPI_Iallreduce) Iallreduce;
  decltype(&::MPI_Ireduce) Ireduce;
  decltype(&::MPI_Ireduce_scatter) Ireduce_scatter;
  decltype(&::MPI_Iallgatherv) Iallgatherv;
  decltype(&::MPI_Ibcast) Ibcast;
  decltype(&::MPI_Ibarrier) Ibarrier;

  MPI_Comm world;
  MPI_Errhandler errors_return;
  MPI_Request request_null;
  MPI_Datatype byte, f64, f32, i64, u16;
  MPI_Op sum, min, max;
};

// The library, opened by the first call and for as long as the process lives; absent with one line that says
// why.
struct OpenedMpi {
  const MpiLibrary* library = nullptr;
  std::string why_none;
};
const OpenedMpi& opened_mpi();

// Throws VendorError with the text of the library unless `code` is MPI_SUCCESS.
void check(const MpiLibrary& mpi, int code, std::string_view what);

// How a dtype is reduced: MPI's own sums where it has them, else those of parallel/arithmetic.h.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};
// After MPI was initialised.
MpiReduction reduction_of(const MpiLibrary& mpi, DType dtype, Reduction reduction);

}  // namespace tandem::parallel
