// OpenMP's settings. They give the number of threads; Tandem's parallel loops have threads of their own
// (core/cpu/parallel.h). oneDNN is built on OpenMP, and is always called with one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::cpu {

// OMP_THREAD_LIMIT, or the largest possible count.
int thread_limit();

// OpenMP's environment variables, including GNU's, by name: {"OMP_PLACES", "cores"}.
std::vector<std::pair<std::string, std::string>> openmp_variables();

// During its lifetime, OpenMP has one thread for regions of the calling thread.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int outer_;
};

}  // namespace tandem::cpu
