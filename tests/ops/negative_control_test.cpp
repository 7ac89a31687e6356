// Negative controls of the harness: each case checks an op with one fault, and must fail ([!shouldfail]).
#include <catch2/catch.hpp>

#include "autograd/apply.h"
#include "autograd/ops/elementwise.h"
#include "tests/ops/harness.h"

using namespace tandem;
using namespace tandem::test;

namespace {

enum class Fault { value, gradient, second_gradient, sink, dtype, writes_input };

// y = x², except for the fault.
template <Fault fault>
struct Broken {
  static constexpr OpInfo info{"broken_square", CastRule::fp32};
  struct In {
    Tensor x;
  };
  struct Saved {
    Tensor x;
  };
  struct Out {
    Tensor y;
  };

  Out forward(Context& context, Saved& saved, const In& in) const {
    saved.x = in.x;
    const Tensor x = in.x.detach();
    Tensor y = mul(x, x);
    if constexpr (fault == Fault::value) y = mul(y, 1.01);
    if constexpr (fault == Fault::writes_input) context.backend.fill(x, 1.0);
    return {fault == Fault::dtype ? y : cast(y, context.dtype)};
  }

  In backward(const Saved& saved, const Out& dy, const Needs& needs) const {
    const Tensor x = fault == Fault::second_gradient ? saved.x.detach() : saved.x;
    const Tensor dx = mul(mul(x, fault == Fault::gradient ? 2.01 : 2.0), dy.y);
    const GradOutput* sink = needs.sink(0);
    if (fault != Fault::sink || !sink) return {dx};
    backend_for(dx.device()).cast(dx, sink->tensor);  // forgets to add to what is there
    return {sink->tensor};
  }
};

template <Fault fault>
Row broken() {
  return {.op = "broken_square",
          .run = RUN(apply(Broken<fault>{}, {x[0]}).y),
          .oracle = each([](double x) { return x * x; }),
          .cases = {{{3, 4}}}};
}

}  // namespace

TEST_CASE("control: the sound parts of a broken op pass", "[ops]") {
  check_forward(broken<Fault::gradient>(), DType::f32);
  check_gradient(broken<Fault::second_gradient>());
  check_gradient(broken<Fault::sink>());
  check_sinks(broken<Fault::gradient>());
  check_autocast(broken<Fault::gradient>(), DType::bf16);
}

TEST_CASE("control: a wrong value", "[ops][!shouldfail]") {
  check_forward(broken<Fault::value>(), DType::f16);
}
TEST_CASE("control: a wrong gradient", "[ops][!shouldfail]") { check_gradient(broken<Fault::gradient>()); }
TEST_CASE("control: a wrong second gradient", "[ops][!shouldfail]") {
  check_second_gradient(broken<Fault::second_gradient>());
}
TEST_CASE("control: a sink that is not added to", "[ops][!shouldfail]") {
  check_sinks(broken<Fault::sink>());
}
TEST_CASE("control: a meeting gradient that is lost", "[ops][!shouldfail]") {
  check_meeting(broken<Fault::sink>(), DType::f32);
}
TEST_CASE("control: a cast rule that is not kept", "[ops][!shouldfail]") {
  check_autocast(broken<Fault::dtype>(), DType::bf16);
}
TEST_CASE("control: an input that is written", "[ops][!shouldfail]") {
  check_forward(broken<Fault::writes_input>(), DType::f32);
}
TEST_CASE("control: an op that is not the one named", "[ops][!shouldfail]") {
  Row row = broken<Fault::gradient>();
  row.op = "another";
  CHECK(executed_ops(row).count(row.op) == 1);
}
TEST_CASE("control: an op without a row is named", "[ops]") {
  const OpInfo fresh{"op_without_row", CastRule::neutral};
  std::vector<const OpInfo*> infos = {&Broken<Fault::value>::info, &fresh};
  CHECK(ops_without_row(infos, {broken<Fault::value>()}) == std::vector<std::string>{"op_without_row"});
}
