#include "parallel/device_communicator.h"

#include <cstdint>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "parallel/deadline.h"

namespace tandem::parallel {

namespace {

void check_reduced_on_device(std::string_view where, DType dtype) {
  require(is_floating(dtype) || dtype == DType::i64 || dtype == DType::i32, where,
          "{} cannot be reduced; supported are f64, f32, f16, bf16, i64 and i32", name_of(dtype));
}

void check_parts(std::string_view where, const ConstElements& part, const ConstElements& all, int ranks) {
  require(all.count == part.count * static_cast<std::size_t>(ranks), where,
          "{} elements are not {} parts of {}", all.count, ranks, part.count);
  require(part.dtype == all.dtype, where, "one buffer is {}, the other {}", name_of(part.dtype),
          name_of(all.dtype));
}

// Completion of a device's work.
class DeviceWork final : public Pending::Work {
 public:
  explicit DeviceWork(Backend& backend) : backend_(backend), event_(backend.record_event()) {}

  bool test() override { return backend_.event_done(event_); }
  void wait(double deadline_s) override {
    Deadline patience(deadline_s);
    while (!test()) {
      if (patience.over())
        throw RankError("wait",
                        fmt::format("the device has not finished after {:.3g} s", patience.waited_s()), {});
      patience.pause();
    }
  }

 private:
  Backend& backend_;
  std::uint64_t event_;
};

}  // namespace

void DeviceCommunicator::all_reduce(std::span<const ReducedElements> values) {
  std::vector<ReducedElements> some;
  for (const ReducedElements& each : values) {
    check_reduced_on_device("all_reduce", each.data.dtype);
    if (each.data.count > 0) some.push_back(each);
  }
  if (!some.empty()) do_all_reduce(some);
}

void DeviceCommunicator::all_reduce(Elements data, Reduction reduction) {
  const ReducedElements only{data, reduction};
  all_reduce(std::span(&only, 1));
}

void DeviceCommunicator::reduce_scatter(ConstElements all, Elements own, Reduction reduction) {
  check_reduced_on_device("reduce_scatter", all.dtype);
  check_parts("reduce_scatter", own, all, size());
  if (own.count > 0) do_reduce_scatter(all, own, reduction);
}

void DeviceCommunicator::all_gather(ConstElements own, Elements all) {
  check_parts("all_gather", own, all, size());
  if (own.count > 0) do_all_gather(own, all);
}

void DeviceCommunicator::broadcast(Elements data, int root) {
  require(root >= 0 && root < size(), "broadcast", "{} is not a rank: there are {}, numbered from 0", root,
          size());
  if (data.count > 0) do_broadcast(data, root);
}

Pending DeviceCommunicator::pending() {
  join();
  return Pending(std::make_unique<DeviceWork>(backend_for(device_)));
}

}  // namespace tandem::parallel
