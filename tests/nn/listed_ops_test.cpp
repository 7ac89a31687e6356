// The lists of ops are complete. This program has no ops of its own, and the library one outside autograd:
// scale_gradient (amp/segmented_loss_scale.h), which users do not apply.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"

using namespace tandem;

TEST_CASE("every op that a program applies is in the list of its family", "[all_ops]") {
  const OpInfos listed = all_op_infos();
  for (const OpInfo* applied : applied_ops()) {
    if (applied->name == std::string_view("scale_gradient")) continue;
    INFO(applied->name);
    CHECK(std::ranges::count(listed, applied) == 1);
  }
}
