#include "tests/support/paths.h"

namespace tandem::test {

std::string source_path(const std::string& relative) { return std::string(TANDEM_SOURCE_DIR "/") + relative; }

const char* program_path() { return TANDEM_PROGRAM; }
const char* tiny_program_path() { return TANDEM_TINY_PROGRAM; }

std::string simd_library(const std::string& level) { return TANDEM_SIMD_LIBRARY + level + ".so"; }

}  // namespace tandem::test
