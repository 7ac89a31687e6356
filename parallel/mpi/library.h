// The used part of Open MPI's library, opened at run time, so that one program runs with and without it. Only
// files of this folder include this header; it needs mpi.h for Open MPI's types and constants.
#pragma once

// Skips the C++ bindings, which MPI 3 removed.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <string_view>

#include "parallel/communicator.h"

namespace tandem::parallel {

// Functions named as in MPI without prefix, and mpi.h's handles, which are addresses of the library's data.
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

// The library, opened by the first call for the lifetime of the process; absent with a one-line reason.
struct OpenedMpi {
  const MpiLibrary* library = nullptr;
  std::string why_none;
};
const OpenedMpi& opened_mpi();

// Throws VendorError with the library's message unless `code` is MPI_SUCCESS.
void check(const MpiLibrary& mpi, int code, std::string_view what);

// Reduction of a dtype: MPI's own if suitable, else that of parallel/arithmetic.h.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};
// Call after MPI was initialised.
MpiReduction reduction_of(const MpiLibrary& mpi, DType dtype, Reduction reduction);

}  // namespace tandem::parallel
