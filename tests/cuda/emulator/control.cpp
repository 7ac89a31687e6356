#include "tests/cuda/emulator/control.h"

#include <cstdlib>
#include <cstring>

#include "tests/cuda/emulator/block.h"
#include "tests/cuda/emulator/call.h"
#include "tests/cuda/emulator/library.h"
#include "tests/cuda/emulator/memory.h"

namespace cuda_emulator {

namespace {

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

bool& narrow_libraries() {
  static bool narrow = is_set("TANDEM_EMULATOR_NARROW");
  return narrow;
}

bool wrong_fusions = false;
std::uint64_t refused_allocation = 0;  // as a count of calls still to come; 0: none

}  // namespace

Counts& counters() {
  static Counts counts;
  return counts;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

bool is_allocation_refused() { return refused_allocation > 0 && --refused_allocation == 0; }

Counts counts() {
  const Call call;
  Counts result = counters();
  result.device_bytes = allocated_device_bytes();
  return result;
}

void set_device_memory(std::size_t bytes) {
  const Call call;
  set_device_memory_bytes(bytes);
}

void fail_allocation(std::uint64_t n) {
  const Call call;
  refused_allocation = n;
}

void set_execution_order(int order) {
  const Call call;
  set_order(static_cast<Order>(order));
}

bool are_libraries_narrow() { return narrow_libraries(); }
bool are_fusions_wrong() { return wrong_fusions; }

void set_wrong_fusions(bool wrong) {
  const Call call;
  wrong_fusions = wrong;
}

void set_narrow_libraries(bool narrow) {
  const Call call;
  narrow_libraries() = narrow;
}

void set_eager(bool eager) {
  const Call call;
  set_eager_execution(eager);
}

}  // namespace cuda_emulator
