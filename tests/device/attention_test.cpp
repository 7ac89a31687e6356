// Attention by a library on the device: it must agree with the own kernels before it computes.
#include "autograd/ops/attention.h"

#include <catch2/catch.hpp>
#include <limits>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "tests/device/emulator.h"
#include "tests/device/support.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

struct Attended {
  std::vector<double> y, dx;
};

// Of two texts of 2 + 2·1 heads; a width of its own is a shape of its own.
Attended attended(Index width, const AttentionOptions& options, double gradient_scale = 1.0) {
  const Tensor x = leaf(random_tensor({2, 9, 4 * width}, DType::bf16, 1));
  const Tensor y = multi_head_attention(x, {.queries = 2, .keys = 1}, options);
  const Tensor dy = random_tensor(y.shape(), y.dtype(), 2) * gradient_scale;
  return {y.to_vector<double>(),
          gradients(std::span(&y, 1), std::span(&dy, 1), std::span(&x, 1)).front().to_vector<double>()};
}

void check_close(const std::vector<double>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(wanted[i]).margin(0.03));
}

const AttentionOptions kForms[] = {{},
                                   {.causal = true},
                                   {.causal = true, .window = 3},
                                   {.lengths = Tensor::from(std::vector<std::int64_t>{9, 4}, {2})}};

}  // namespace

TEST_CASE("a library's attention computes once it has agreed", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  for (const AttentionOptions& form : kForms) {
    const Attended own = attended(8, form);
    emulated.set_attention_offered(true);
    const std::uint64_t before = emulated.counts().library_attentions;
    const Attended first = attended(16, form), second = attended(16, form);
    CHECK(emulated.counts().library_attentions - before == 4);
    emulated.set_attention_offered(false);
    CHECK(first.y == second.y);
    CHECK(first.dx == second.dx);
    CHECK(attended(8, form).y == own.y);  // a shape without an engine keeps the own kernels
  }
}

TEST_CASE("a library's wrong attention is found out, and results are right all the same", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  emulated.set_attention_offered(true);
  emulated.set_wrong_fusions(true);
  const Attended first = attended(24, {.causal = true}), second = attended(24, {.causal = true});
  backend_under_test().synchronize();
  emulated.set_wrong_fusions(false);
  const std::uint64_t before = emulated.counts().library_attentions;
  const Attended third = attended(24, {.causal = true});
  CHECK(emulated.counts().library_attentions == before);  // the decision stays
  emulated.set_attention_offered(false);
  CHECK(first.y == second.y);
  CHECK(first.y == third.y);
  CHECK(first.dx == third.dx);
  check_close(first.y, attended(24, {.causal = true, .composed = true}).y);
  check_close(first.dx, attended(24, {.causal = true, .composed = true}).dx);
}

TEST_CASE("gradients that overflow do not decide about a library's attention", "[device]") {
  const Emulator emulated = emulator();
  if (!emulated) return;
  emulated.set_attention_offered(true);
  const std::uint64_t before = emulated.counts().library_attentions;
  attended(32, {.causal = true}, std::numeric_limits<double>::infinity());
  const Attended first = attended(32, {.causal = true}), second = attended(32, {.causal = true});
  CHECK(emulated.counts().library_attentions - before == 6);
  emulated.set_attention_offered(false);
  CHECK(first.dx == second.dx);
  check_close(first.dx, attended(32, {.causal = true, .composed = true}).dx);
}
