// One thread for tests with tensors too small to gain from a second.
#pragma once

#include <omp.h>

namespace tandem::test {

class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(outer_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int outer_ = omp_get_max_threads();
};

}  // namespace tandem::test
