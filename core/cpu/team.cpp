#include "core/cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/printable.h"

namespace tandem::cpu {

namespace {

// Stack size of the calling thread; SIZE_MAX if the system does not report it.
std::size_t stack_bytes() {
  std::size_t bytes = SIZE_MAX;
#if defined(__linux__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bytes;
  void* lowest = nullptr;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) != 0) bytes = SIZE_MAX;
  pthread_attr_destroy(&attributes);
#endif
  return bytes;
}

// The setting that determined the stack size of new threads, for messages.
std::string reason_of_stacks() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"})
    if (const char* value = std::getenv(name)) return printable(fmt::format("{}={}", name, value));
  return "ulimit -s";
}

// Size in bytes as OpenMP parses it: a number of KiB, or of the given unit; 0 if invalid.
std::size_t stack_asked_for(const char* value) {
  char* unit = nullptr;
  const unsigned long long number = std::strtoull(value, &unit, 10);
  while (*unit == ' ') ++unit;
  switch (*unit) {
    case 'b':
    case 'B':
      return number;
    case 'm':
    case 'M':
      return number << 20;
    case 'g':
    case 'G':
      return number << 30;
    default:
      return number << 10;
  }
}

// OpenMP aborts the process if the system cannot start a thread, so this tries first.
void require_threads_start() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* value = std::getenv(name);
    pthread_attr_t attributes;
    if (!value || pthread_attr_init(&attributes) != 0) continue;
    pthread_t thread;
    const bool is_size = pthread_attr_setstacksize(&attributes, stack_asked_for(value)) == 0;
    const int failure = is_size ? pthread_create(
                                      &thread, &attributes, [](void* nothing) { return nothing; }, nullptr)
                                : 0;
    if (is_size && failure == 0) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    require(failure == 0, printable(fmt::format("{}={}", name, value)),
            "threads cannot start with a stack of {} MiB: {}; unset or lower it",
            stack_asked_for(value) >> 20, std::strerror(failure));
  }
}

void require_stack(std::size_t bytes, const std::string& reason, std::string_view whose) {
  require(bytes >= kLeastStack, reason, "{} has a stack of {} KiB, kernels need {}; unset or raise it", whose,
          bytes >> 10, kLeastStack >> 10);
}

std::string text_of_variables() {
  std::string text;
  for (const auto& [name, value] : openmp_variables())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text.empty() ? "no OpenMP variable is set" : text;
}

bool form_team() {
  omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  const int asked = std::min(omp_get_max_threads(), thread_limit());
  omp_set_num_threads(asked);
  require_stack(stack_bytes(), "ulimit -s", "the calling thread");
  require_threads_start();
  int present = 0;
  std::size_t least = SIZE_MAX;
#pragma omp parallel num_threads(asked) reduction(+ : present) reduction(min : least)
  {
    present += 1;
    if (omp_get_thread_num() > 0) least = stack_bytes();
  }
  require(present == asked, "OpenMP", "requested a team of {} threads, got {} ({})", asked, present,
          text_of_variables());
  require_stack(least, reason_of_stacks(), "a worker thread");
  // Parallel loops have threads of their own. OpenMP's, which may spin for long, start again when oneDNN
  // needs them.
  omp_pause_resource_all(omp_pause_soft);
  return true;
}

}  // namespace

void prepare_team() { [[maybe_unused]] static thread_local const bool prepared = form_team(); }

int thread_limit() { return omp_get_thread_limit(); }

std::vector<std::pair<std::string, std::string>> openmp_variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** at = environ; at && *at; ++at) {
    const std::string_view entry = *at;
    const std::size_t end = entry.find('=');
    if (end == std::string_view::npos || (!entry.starts_with("OMP_") && !entry.starts_with("GOMP_")))
      continue;
    found.emplace_back(printable(std::string(entry.substr(0, end))),
                       printable(std::string(entry.substr(end + 1))));
  }
  std::sort(found.begin(), found.end());
  return found;
}

TeamSize::TeamSize(int count) : outer_(omp_get_max_threads()) {
  if (count != outer_) omp_set_num_threads(count);
}

TeamSize::~TeamSize() {
  if (omp_get_max_threads() != outer_) omp_set_num_threads(outer_);
}

}  // namespace tandem::cpu
