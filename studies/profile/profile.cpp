#include "studies/profile/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace tandem::profile {

namespace {

struct Key {
  const OpInfo* op = nullptr;
  Direction direction = Direction::forward;
  std::string shapes;
  std::int64_t bytes = 0, flop = 0;
  DType operands = DType::f32;
  std::string algorithms;
  const OpInfo* part_of = nullptr;
  std::string part_of_shapes;

  friend auto operator<=>(const Key&, const Key&) = default;
};

std::string_view family_name(const OpInfo* op) { return op ? family_of(op->traits) : "update"; }
std::string name_of(const OpInfo* op) { return op ? op->name : "update"; }

class Totals {
 public:
  void add(const Recorder& recorder) {
    const auto& calls = recorder.calls();
    for (const Call& call : calls) {
      Key key{.op = call.op,
              .direction = call.direction,
              .shapes = recorder.shapes(call),
              .bytes = call.bytes,
              .flop = call.flop,
              .operands = call.operands,
              .algorithms = recorder.algorithms(call)};
      if (call.part_of >= 0) {
        const Call& whole = calls[static_cast<std::size_t>(call.part_of)];
        key.part_of = whole.op;
        key.part_of_shapes = recorder.shapes(whole);
      }
      Cost& cost = costs_[key];
      cost.calls += 1.0;
      cost.seconds += call.seconds;
      cost.bytes += static_cast<double>(call.bytes);
      cost.flop += static_cast<double>(call.flop);
    }
  }

  std::set<DType> operands() const {
    std::set<DType> dtypes{DType::f32};
    for (const auto& [key, cost] : costs_)
      if (key.flop > 0 && is_16bit(key.operands)) dtypes.insert(key.operands);
    return dtypes;
  }

  void summarise(Profile& profile) const {
    std::map<std::pair<std::string_view, Direction>, Cost> families;
    std::map<std::tuple<std::string, Direction, std::string>, OpCost> rows;
    const double steps = profile.steps;
    const auto mean = [&](const Key& key, Cost cost) {
      cost.bound = cost.calls * profile.limits.bound(key.bytes, key.flop, key.operands);
      return Cost{cost.calls / steps, cost.seconds / steps, cost.bytes / steps, cost.flop / steps,
                  cost.bound / steps};
    };
    const auto row = [&](const OpInfo* op, Direction direction, const std::string& shapes) -> OpCost& {
      OpCost& found = rows[{name_of(op), direction, shapes}];
      found.op = name_of(op);
      found.direction = direction;
      found.shapes = shapes;
      return found;
    };
    for (const auto& [key, total] : costs_) {
      const Cost cost = mean(key, total);
      if (key.part_of) {
        auto& parts = row(key.part_of, key.direction, key.part_of_shapes).parts;
        auto part = std::ranges::find_if(
            parts, [&key = key](const OpCost& p) { return p.op == key.op->name && p.shapes == key.shapes; });
        if (part == parts.end())
          part = parts.insert(parts.end(),
                              {.op = key.op->name, .direction = key.direction, .shapes = key.shapes});
        part->cost += cost;
        add_names(part->algorithms, key.algorithms);
        continue;
      }
      profile.ops += cost;
      families[{family_name(key.op), key.direction}] += cost;
      OpCost& op = row(key.op, key.direction, key.shapes);
      op.cost += cost;
      add_names(op.algorithms, key.algorithms);
    }
    for (const auto& [which, cost] : families)
      profile.families.push_back(
          {.family = std::string(which.first), .direction = which.second, .cost = cost});
    for (auto& [which, op] : rows) profile.slowest.push_back(std::move(op));
    std::ranges::stable_sort(profile.slowest, std::ranges::greater{},
                             [](const OpCost& op) { return op.cost.seconds; });
  }

 private:
  std::map<Key, Cost> costs_;
};

// Scope in which a recorder observes a timer's stages.
class StageObserverScope {
 public:
  StageObserverScope(train::StageTimer& timer, Recorder& recorder) : timer_(timer) {
    timer.set_observer(&recorder);
  }
  ~StageObserverScope() { timer_.set_observer(nullptr); }
  StageObserverScope(const StageObserverScope&) = delete;
  StageObserverScope& operator=(const StageObserverScope&) = delete;

 private:
  train::StageTimer& timer_;
};

double host_seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  calls += other.calls;
  seconds += other.seconds;
  bytes += other.bytes;
  flop += other.flop;
  bound += other.bound;
  return *this;
}

Profile measure(Backend& backend, std::int64_t update_bytes, train::StageTimer& stages, int steps,
                const std::function<void()>& run_step) {
  Profile profile;
  profile.steps = steps;
  Recorder recorder(backend, update_bytes);
  Totals totals;
  {
    CopyLoad load(backend);
    run_step();
    backend.synchronize();
    const double asking = host_seconds(run_step);
    backend.synchronize();
    const double copying = load.seconds();
    profile.limits.bytes_per_second = load.bytes() / copying;
    profile.limits.empty_seconds = load.empty_interval();
    // Twice the time of an ordinary step, since a profiled step takes the host longer.
    const bool asynchronous = backend.device().type != DeviceType::cpu;
    const auto ahead = asynchronous ? static_cast<std::int64_t>(std::ceil(2.0 * asking / copying)) : 0;
    const StageObserverScope observer(stages, recorder);
    for (int i = 0; i < steps; ++i) {
      load.enqueue(ahead);
      recorder.begin_step();
      {
        const ObserverScope observed(recorder);
        run_step();
      }
      recorder.end_step();
      totals.add(recorder);
      profile.step_seconds += recorder.step_seconds() / steps;
      for (std::size_t p = 0; p < train::kStageNames.size(); ++p)
        profile.stage_seconds[p] += recorder.stage_seconds(static_cast<train::Stage>(p)) / steps;
    }
  }
  for (const DType operands : totals.operands())
    profile.limits.products.emplace_back(operands, product_rate(backend, operands));
  totals.summarise(profile);
  return profile;
}

}  // namespace tandem::profile
