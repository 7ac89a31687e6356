// Step reports from the device, and counters that depend on them.
#include "optim/step/report.h"

#include <cstring>

#include "optim/step/counters.h"
#include "tests/optim/toy.h"

using namespace tandem;
using namespace tandem::test;

namespace {

template <class State>
Tensor bytes_of(const State& state) {
  const Tensor bytes = Tensor::empty({static_cast<Index>(sizeof(State))}, {.dtype = DType::u8});
  std::memcpy(bytes.raw(), &state, sizeof(state));
  return bytes;
}

// Outcomes that arrive when the test says so.
struct Outcomes {
  std::vector<bool> skipped;  // of steps from 1 on
  std::int64_t known = 0;
  optim::LateCounters::Outcome function() {
    return [this](std::int64_t attempted) -> std::optional<bool> {
      if (attempted > known) return std::nullopt;
      return skipped.at(static_cast<std::size_t>(attempted - 1));
    };
  }
};

struct Count {
  std::int64_t live = 0, next = 0;
  nn::Counter counter() { return {"count", &live, &next}; }
};

}  // namespace

TEST_CASE("the mailbox keeps what was sent of the last two steps", "[optim]") {
  optim::ReportMailbox mailbox({});
  StepState state;
  ScaleState scale;
  state.attempted = 6;
  state.loss = 0.5;
  scale.value = 128.0f;
  mailbox.reset(state, bytes_of(scale));
  for (const std::int64_t step : {5, 6}) {
    CHECK(mailbox.arrived(step));
    CHECK(mailbox.report(step).attempted == 6);
    CHECK(mailbox.report(step).next_loss_scale == 128.0);
  }
  state.attempted = 7;
  state.skipped = state.consecutive_skips = 1;
  state.skip = 1;
  state.used_scale = 128.0f;
  scale.value = 64.0f;
  scale.exhausted = 1;
  const Tensor device_state = bytes_of(state), device_scale = bytes_of(scale);
  mailbox.send(7, device_state, device_scale);
  std::memset(device_state.raw(), 0, device_state.bytes());  // the next step's
  mailbox.wait_for(7);
  CHECK(mailbox.arrived(7));
  const optim::StepReport report = mailbox.report(7);
  CHECK(report.attempted == 7);
  CHECK(report.skip);
  CHECK(report.consecutive_skips == 1);
  CHECK(report.loss_scale == 128.0);
  CHECK(report.next_loss_scale == 64.0);
  CHECK(report.exhausted);
  CHECK(mailbox.state(7).skipped == 1);
  CHECK_FALSE(mailbox.report(6).skip);
}

TEST_CASE("counters follow outcomes, however late these are known", "[optim]") {
  // The device is up to two steps behind: what is known when step n ends.
  for (const std::vector<std::int64_t>& known : std::vector<std::vector<std::int64_t>>{{1, 2, 3, 4, 5, 6},
                                                                                       {0, 1, 2, 3, 4, 5},
                                                                                       {0, 0, 1, 3, 3, 4},
                                                                                       {0, 0, 2, 2, 4, 4},
                                                                                       {0, 0, 1, 2, 3, 4}}) {
    CAPTURE(known);
    Count count;
    optim::LateCounters counters;
    counters.watch({count.counter()});
    Outcomes outcomes{{false, true, false, false, true, false}};
    std::int64_t expected = 0;
    for (std::int64_t step = 1; step <= 6; ++step) {
      count.next += step;  // a number of its own for each step
      if (!outcomes.skipped[static_cast<std::size_t>(step - 1)]) expected += step;
      outcomes.known = std::max(known[static_cast<std::size_t>(step - 1)], step - 2);
      counters.close_step(step, outcomes.function());
      counters.settle(step, outcomes.function());
      CHECK(counters.settled() == outcomes.known);
    }
    outcomes.known = 6;
    counters.settle(6, outcomes.function());
    CHECK(count.live == expected);
    CHECK(count.next == expected);
  }
}

TEST_CASE("a step's counts do not count before its report was asked for", "[optim]") {
  // Outcome of step 2 arrives between the end of step 3 on the host and its own report.
  Count count;
  optim::LateCounters counters;
  counters.watch({count.counter()});
  Outcomes outcomes{{false, false, false}};
  for (const std::int64_t step : {1, 2}) {
    count.next += 10 * step;
    counters.close_step(step, outcomes.function());
  }
  count.next += 300;
  outcomes.known = 3;  // a mailbox whose slot still holds step 1 would say so of step 3
  counters.close_step(3, outcomes.function());
  CHECK(counters.settled() == 2);
  CHECK(count.live == 30);
  CHECK(count.next == 330);
  counters.settle(3, outcomes.function());
  CHECK(count.live == 330);
  count.next += 1;
  counters.drop();
  CHECK(count.next == 330);
}
