// The used part of Open MPI's library, opened at run time, so that one program runs with and without it. Only
// files of this folder include this header; it needs mpi.h for Open MPI's types and constants.
#pragma once

// Skips the C++ bindings, which MPI 3 removed.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <string_view>

#include "parallel/communicator.h"
#include "parallel/library_symbols.h"

namespace tandem::parallel {

// Tags of messages between two ranks; MPI's collectives need none.
inline constexpr int kDataTag = 1, kQuestionTag = 2, kAnswerTag = 3;

// Functions named as in MPI without prefix, and mpi.h's handles, which are addresses of the library's data.
struct MpiLibrary {
  LibrarySymbols symbols;

  decltype(&::MPI_Init_thread) Init_thread = symbols["MPI_Init_thread"];
  decltype(&::MPI_Finalize) Finalize = symbols["MPI_Finalize"];
  decltype(&::MPI_Initialized) Initialized = symbols["MPI_Initialized"];
  decltype(&::MPI_Comm_rank) Comm_rank = symbols["MPI_Comm_rank"];
  decltype(&::MPI_Comm_size) Comm_size = symbols["MPI_Comm_size"];
  decltype(&::MPI_Comm_set_errhandler) Comm_set_errhandler = symbols["MPI_Comm_set_errhandler"];
  decltype(&::MPI_Error_string) Error_string = symbols["MPI_Error_string"];
  decltype(&::MPI_Get_library_version) Get_library_version = symbols["MPI_Get_library_version"];
  decltype(&::MPI_Op_create) Op_create = symbols["MPI_Op_create"];
  decltype(&::MPI_Testall) Testall = symbols["MPI_Testall"];
  decltype(&::MPI_Iprobe) Iprobe = symbols["MPI_Iprobe"];
  decltype(&::MPI_Isend) Isend = symbols["MPI_Isend"];
  decltype(&::MPI_Irecv) Irecv = symbols["MPI_Irecv"];
  decltype(&::MPI_Iallreduce) Iallreduce = symbols["MPI_Iallreduce"];
  decltype(&::MPI_Ireduce) Ireduce = symbols["MPI_Ireduce"];
  decltype(&::MPI_Ireduce_scatter) Ireduce_scatter = symbols["MPI_Ireduce_scatter"];
  decltype(&::MPI_Iallgatherv) Iallgatherv = symbols["MPI_Iallgatherv"];
  decltype(&::MPI_Ibcast) Ibcast = symbols["MPI_Ibcast"];
  decltype(&::MPI_Ibarrier) Ibarrier = symbols["MPI_Ibarrier"];

  // Values of MPI_COMM_WORLD and other handles in Open MPI's mpi.h.
  MPI_Comm world = symbols["ompi_mpi_comm_world"];
  MPI_Errhandler errors_return = symbols["ompi_mpi_errors_return"];
  MPI_Request request_null = symbols["ompi_request_null"];
  MPI_Datatype byte = symbols["ompi_mpi_byte"], f64 = symbols["ompi_mpi_double"],
               f32 = symbols["ompi_mpi_float"], i64 = symbols["ompi_mpi_int64_t"],
               u16 = symbols["ompi_mpi_uint16_t"];
  MPI_Op sum = symbols["ompi_mpi_op_sum"], min = symbols["ompi_mpi_op_min"], max = symbols["ompi_mpi_op_max"];
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
