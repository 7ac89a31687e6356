// OpenMP's thread team, with a guaranteed size, for oneDNN's kernels that have more than one thread. They are
// created for a number of threads; with fewer they hang or leave parts of the result unwritten. All other
// loops have threads of their own (core/cpu/parallel.h).
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tandem::cpu {

// Minimum stack size of a team's threads in bytes, several times the need of the deepest kernel.
inline constexpr std::size_t kLeastStack = std::size_t{512} << 10;

// Prepares the team, once per computing thread, and starts it once to check it. Prevents smaller teams than
// requested (OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS) and requests at most OMP_THREAD_LIMIT threads. Throws
// UserError with the variable's name if the team has another size, or a thread's stack is smaller than
// kLeastStack.
void prepare_team();

// OMP_THREAD_LIMIT, or the largest possible count.
int thread_limit();

// OpenMP's environment variables, including GNU's, by name: {"OMP_PLACES", "cores"}.
std::vector<std::pair<std::string, std::string>> openmp_variables();

// During its lifetime, parallel regions of this thread have `count` threads. The innermost object applies.
class TeamSize {
 public:
  explicit TeamSize(int count);
  ~TeamSize();
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  int outer_;
};

}  // namespace tandem::cpu
