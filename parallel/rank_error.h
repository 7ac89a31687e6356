// Error of a timeout: a rank waited for others in vain.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tandem::parallel {

// A rank did not reach or finish a collective before its deadline. The communicator is unusable: only
// Communicator::abort remains, and a restart from the last checkpoint. With several processes each ends
// within 5 s, with or without that call.
class [[gnu::visibility("default")]] RankError : public Error {
 public:
  // `ranks`: the ranks to blame, ascending; empty if unknown.
  RankError(std::string_view where, const std::string& message, std::vector<int> ranks)
      : Error(where, message), ranks_(std::move(ranks)) {}

  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};

}  // namespace tandem::parallel
