#include "core/build_info.h"

#ifndef TANDEM_VERSION
#define TANDEM_VERSION "unknown"
#endif
#ifndef TANDEM_BUILD_TYPE
#define TANDEM_BUILD_TYPE "unknown"
#endif
#ifndef TANDEM_SOURCE_DIR
#define TANDEM_SOURCE_DIR ""
#endif

namespace tandem {

const char* version() { return TANDEM_VERSION; }
const char* build_type() { return TANDEM_BUILD_TYPE; }
const char* source_directory() { return TANDEM_SOURCE_DIR; }

const char* compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return "unknown";
#endif
}

}  // namespace tandem
