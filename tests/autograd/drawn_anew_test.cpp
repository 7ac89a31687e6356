// Random ops draw different numbers for a different step, micro-batch, call or seed, and equal ones for equal
// keys. Shards and ranks are numbered among the micro-batches of a step.
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <vector>

#include "autograd/ops/random.h"
#include "core/random.h"

using namespace tandem;

namespace {

using Values = std::vector<double>;

void append(Values& to, const Tensor& tensor) {
  for (const float value : tensor.to_vector<float>()) to.push_back(value);
}

}  // namespace

TEST_CASE("ops draw anew for every step, micro-batch, call and seed", "[drawn_anew]") {
  struct Case {
    std::uint64_t seed;
    std::uint32_t step, micro_batch;
  };
  const Tensor ones = Tensor::from(std::vector<float>(64, 1.0F), {64});
  const std::vector<std::function<Tensor()>> ops = {[&] { return dropout(ones, 0.5); },
                                                    [&] {
                                                      return locked_dropout(ones.viewed({1, 64}), 0.5);
                                                    },
                                                    [] { return random_normal({64}); },
                                                    [] { return random_uniform({64}); }};
  for (std::size_t op = 0; op < ops.size(); ++op) {
    CAPTURE(op);
    std::set<Values> seen;
    for (const auto& [seed, step, micro_batch] :
         {Case{1, 0, 0}, Case{1, 1, 0}, Case{1, 2, 0}, Case{1, 0, 1}, Case{1, 0, 2}, Case{2, 0, 0}}) {
      CAPTURE(seed, step, micro_batch);
      const auto drawn = [&, seed = seed, step = step, micro_batch = micro_batch](int call) {
        const RandomScope scope(seed, step, micro_batch);
        Values values;
        for (int i = 0; i <= call; ++i) {
          values.clear();
          append(values, ops[op]());
        }
        return values;
      };
      CHECK(seen.insert(drawn(0)).second);
      CHECK(seen.insert(drawn(1)).second);
      CHECK_FALSE(seen.insert(drawn(1)).second);
    }
  }
}
