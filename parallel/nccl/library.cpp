#include "parallel/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/error.h"

namespace tandem::parallel {

namespace {

constexpr const char* kNcclFile = "libnccl.so.2";
// First version with nonblocking communicators; bf16 is older.
constexpr int kOldestNccl = NCCL_VERSION(2, 14, 3);

OpenedNccl open_nccl_library() {
  const char* const named = std::getenv("TANDEM_NCCL_LIBRARY");
  const char* const file = named ? named : kNcclFile;
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return {.why_none = fmt::format("{} cannot be opened: {}; it comes with CUDA or as a separate package "
                                    "(libnccl2), and TANDEM_NCCL_LIBRARY names its place",
                                    file, library_error())};
  static const NcclLibrary library{LibrarySymbols(handle)};
  if (const std::string& missing = library.symbols.missing(); !missing.empty())
    return {.why_none = fmt::format("{} is not NCCL {} or later: it has no {}", file,
                                    nccl_version_text(kOldestNccl), missing)};
  int version = 0;
  if (library.GetVersion(&version) != ncclSuccess || version < kOldestNccl)
    return {.why_none = fmt::format("{} is NCCL {}, expected {} or later", file, nccl_version_text(version),
                                    nccl_version_text(kOldestNccl))};
  return {.library = &library, .version = version};
}

}  // namespace

const OpenedNccl& opened_nccl() {
  static const OpenedNccl opened = open_nccl_library();
  return opened;
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    default:
      ensure(size_of(dtype) == 1, "nccl", "{} is not sent", name_of(dtype));
      return ncclUint8;
  }
}

ncclRedOp_t nccl_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::min:
      return ncclMin;
    case Reduction::max:
      return ncclMax;
  }
  return ncclSum;
}

}  // namespace tandem::parallel
