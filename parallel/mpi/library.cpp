#include "parallel/mpi/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"

namespace tandem::parallel {

namespace {

// Open MPI 2 to 5.
constexpr const char* kFileName = "libmpi.so.40";

OpenedMpi open_library() {
  const char* const named = std::getenv("TANDEM_MPI_LIBRARY");
  const char* const file = named ? named : kFileName;
  // RTLD_GLOBAL: plugins that the library opens need its symbols.
  void* const handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return {nullptr,
            fmt::format("{} cannot be opened: {}. Debian's package is libopenmpi3", file, library_error())};
  static const MpiLibrary library{LibrarySymbols(handle)};
  if (const std::string& missing = library.symbols.missing(); !missing.empty())
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
