// The team of OpenMP's threads has the size that was planned, whatever OpenMP's variables say: kernels of
// oneDNN are made for a number of threads, and with fewer they wait for ever, or leave parts of their result
// as they were.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tandem::cpu {

// Bytes of stack that every thread of a team has at least: several times those of the deepest kernel.
inline constexpr std::size_t kLeastStack = std::size_t{512} << 10;

// Once for each thread that computes: teams are not made smaller than was asked for (OMP_DYNAMIC,
// OMP_MAX_ACTIVE_LEVELS), and no larger one is asked for than may be (OMP_THREAD_LIMIT). Then a team is
// formed. Throws UserError with the variable's name where it has another size, or less than kLeastStack.
void prepare_team();

// OMP_THREAD_LIMIT, or as many as there may ever be.
int thread_limit();

// OpenMP's variables in the environment, GNU's own included, by name: {"OMP_PLACES", "cores"}.
std::vector<std::pair<std::string, std::string>> openmp_variables();

// Within its life, parallel regions of this thread have `count` threads. The innermost holds.
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
