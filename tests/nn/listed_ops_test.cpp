// The lists of ops are complete. This program has no ops of its own.
#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"

using namespace tandem;

TEST_CASE("every op that a program applies is in the list of its family", "[all_ops]") {
  const OpInfos listed = all_op_infos();
  for (const OpInfo* applied : applied_ops()) {
    INFO(applied->name);
    CHECK(std::ranges::count(listed, applied) == 1);
  }
}
