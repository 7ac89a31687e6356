// The error of a rank that waited for others in vain.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tandem::parallel {

// A rank did not come to a collective, or did not go on in it, before its deadline. The communicator is of no
// more use: what remains is Communicator::abort, and to start again from the last checkpoint. Of several
// processes each ends within 5 s, whether it calls it or not.
class [[gnu::visibility("default")]] RankError : public Error {
 public:
  // `ranks`: those that are to blame, ascending; empty where that cannot be told.
  RankError(std::string_view where, const std::string& message, std::vector<int> ranks)
      : Error(where, message), ranks_(std::move(ranks)) {}

  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};

}  // namespace tandem::parallel
