#include "tests/cuda/emulator/control.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

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

std::vector<int>& event_denials() {
  static std::vector<int> denials = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_DENIALS");
    std::istringstream words(text ? text : "");
    std::vector<int> found(std::istream_iterator<int>(words), {});
    return found.empty() ? std::vector{1} : found;
  }();
  return denials;
}

bool wrong_fusions = false, attention_offered = false;
std::string compiled;  // the algorithm that is compiled per shape; empty: none

int& algorithms() {
  static int count = [] {
    const char* text = std::getenv("TANDEM_EMULATOR_ALGORITHMS");
    return text && std::atoi(text) > 0 ? std::atoi(text) : 1;
  }();
  return count;
}

struct Seconds {
  std::string part;
  double warm, cold;
};
std::vector<Seconds>& all_seconds() {
  static std::vector<Seconds> all;
  return all;
}

// Remaining calls of each function until one fails; 0: none fails.
std::map<std::string_view, std::uint64_t>& calls_until_failure() {
  static std::map<std::string_view, std::uint64_t> calls{
      {"cudaMalloc", 0}, {"cudaGraphInstantiate", 0}, {"cudaGraphLaunch", 0}, {"cudaMemcpyAsync", 0}};
  return calls;
}

}  // namespace

Counts& counters() {
  static Counts counts;
  return counts;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

bool is_to_fail(std::string_view function) {
  std::uint64_t& calls = calls_until_failure().at(function);
  return calls > 0 && --calls == 0;
}

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

void fail_call(const char* function, std::uint64_t n) {
  const Call call;
  calls_until_failure().at(function) = n;
}

int next_event_denials() {
  const std::vector<int>& all = event_denials();
  static std::size_t events = 0;
  return all[events++ % all.size()];
}

void set_event_denials(int denials) {
  const Call call;
  event_denials() = {denials};
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

bool is_attention_offered() { return attention_offered; }

void set_attention_offered(bool offered) {
  const Call call;
  attention_offered = offered;
}

int algorithm_count() { return algorithms(); }

void set_algorithms(int count) {
  const Call call;
  algorithms() = count;
}

const std::string& compiled_algorithm() { return compiled; }

void set_compiled_algorithm(const char* name) {
  const Call call;
  compiled = name ? name : "";
}

double seconds_of(const std::string& work) {
  const bool cold = is_cache_cold();
  double sum = 0.0;
  bool found = false;
  for (const Seconds& each : all_seconds()) {
    if (work.find(each.part) == std::string::npos) continue;
    sum += cold ? each.cold : each.warm;
    found = true;
  }
  if (found) return sum;
  constexpr std::string_view kAlgorithm = "emulated-";
  const std::size_t at = work.rfind(kAlgorithm);
  const int later = at == std::string::npos ? 0 : std::atoi(work.c_str() + at + kAlgorithm.size()) - 1;
  return (work.starts_with("matmul") ? 15.0 : 10.0) + later;
}

void set_seconds(const char* part, double seconds, double cold) {
  const Call call;
  if (!part) return all_seconds().clear();
  all_seconds().push_back({part, seconds, cold});
}

void set_narrow_libraries(bool narrow) {
  const Call call;
  narrow_libraries() = narrow;
}

bool put_on_stream(void* stream, std::function<std::function<bool()>()> begin) {
  const Call call;
  ++counters().launches;
  return call.result(enqueue_progress(static_cast<cudaStream_t>(stream), std::move(begin))) == cudaSuccess;
}

bool is_device_memory(const void* address, std::size_t bytes) {
  const Call call;
  return residence_of(address) == Residence::device && is_valid_range(address, bytes);
}

void set_eager(bool eager) {
  const Call call;
  set_eager_execution(eager);
}

}  // namespace cuda_emulator
