#include <catch2/catch.hpp>

#include "runs/checkpoint_store.h"

using namespace tandem;

using Names = std::vector<std::string>;

TEST_CASE("a run keeps its newest checkpoints and what is spared", "[retention]") {
  struct Row {
    const char* what;
    Names checkpoints;
    std::int64_t keep;
    Names spared, gone;
  };
  for (const Row& row : std::vector<Row>{
           {"none", {}, 2, {}, {}},
           {"as many as are kept", {"step-20", "step-10"}, 2, {}, {}},
           {"one too many", {"step-30", "step-20", "step-10"}, 2, {}, {"step-10"}},
           {"the best one stays",
            {"step-40", "step-30", "step-20", "step-10"},
            1,
            {"step-20"},
            {"step-30", "step-10"}},
           {"a spared one among the newest counts",
            {"step-30", "step-20", "step-10"},
            2,
            {"step-20"},
            {"step-10"}},
           {"gone on from an older one",
            {"step-20", "step-40", "step-30", "step-10"},
            2,
            {},
            {"step-40", "step-30"}},
           {"the best one, left behind", {"step-20", "step-40", "step-10"}, 2, {"step-40"}, {}},
       }) {
    INFO(row.what);
    CHECK(runs::superseded(row.checkpoints, row.keep, row.spared) == row.gone);
  }
}
