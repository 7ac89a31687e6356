#include "parallel/mpi/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"
#include "parallel/library_symbols.h"

namespace tandem::parallel {

namespace {

// Open MPI 2 to 5.
constexpr const char* kFileName = "libmpi.so.40";

std::string take_symbols(void* handle, MpiLibrary& mpi) {
  LibrarySymbols symbols(handle);
  symbols.take(mpi.Init_thread, "MPI_Init_thread");
  symbols.take(mpi.Finalize, "MPI_Finalize");
  symbols.take(mpi.Initialized, "MPI_Initialized");
  symbols.take(mpi.Comm_rank, "MPI_Comm_rank");
  symbols.take(mpi.Comm_size, "MPI_Comm_size");
  symbols.take(mpi.Comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.take(mpi.Error_string, "MPI_Error_string");
  symbols.take(mpi.Get_library_version, "MPI_Get_library_version");
  symbols.take(mpi.Op_create, "MPI_Op_create");
  symbols.take(mpi.Testall, "MPI_Testall");
  symbols.take(mpi.Iprobe, "MPI_Iprobe");
  symbols.take(mpi.Isend, "MPI_Isend");
  symbols.take(mpi.Irecv, "MPI_Irecv");
  symbols.take(mpi.Iallreduce, "MPI_Iallreduce");
  symbols.take(mpi.Ireduce, "MPI_Ireduce");
  symbols.take(mpi.Ireduce_scatter, "MPI_Ireduce_scatter");
  symbols.take(mpi.Iallgatherv, "MPI_Iallgatherv");
  symbols.take(mpi.Ibcast, "MPI_Ibcast");
  symbols.take(mpi.Ibarrier, "MPI_Ibarrier");
  // Values of MPI_COMM_WORLD and other handles in Open MPI's mpi.h.
  symbols.take(mpi.world, "ompi_mpi_comm_world");
  symbols.take(mpi.errors_return, "ompi_mpi_errors_return");
  symbols.take(mpi.request_null, "ompi_request_null");
  symbols.take(mpi.byte, "ompi_mpi_byte");
  symbols.take(mpi.f64, "ompi_mpi_double");
  symbols.take(mpi.f32, "ompi_mpi_float");
  symbols.take(mpi.i64, "ompi_mpi_int64_t");
  symbols.take(mpi.u16, "ompi_mpi_uint16_t");
  symbols.take(mpi.sum, "ompi_mpi_op_sum");
  symbols.take(mpi.min, "ompi_mpi_op_min");
  symbols.take(mpi.max, "ompi_mpi_op_max");
  return symbols.missing();
}

OpenedMpi open_library() {
  const char* const named = std::getenv("TANDEM_MPI_LIBRARY");
  const char* const file = named ? named : kFileName;
  // RTLD_GLOBAL: plugins that the library opens need its symbols.
  void* const handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return {nullptr,
            fmt::format("{} cannot be opened: {}. Debian's package is libopenmpi3", file, library_error())};
  static MpiLibrary library;
  const std::string missing = take_symbols(handle, library);
  if (!missing.empty())
    return {nullptr, fmt::format("{} is not a library of Open MPI: it has no {}", file, missing)};
  return {&library, {}};
}

}  // namespace

const OpenedMpi& opened_mpi() {
  static const OpenedMpi opened = open_library();
  return opened;
}

void check(const MpiLibrary& mpi, int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (mpi.Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw VendorError(what, fmt::format("Open MPI reports error {}: {}", code,
                                      std::string_view(text, static_cast<std::size_t>(length))));
}

}  // namespace tandem::parallel
