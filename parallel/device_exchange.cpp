#include "parallel/device_exchange.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::parallel {

namespace {

class DeviceExchange final : public optim::ShardExchange {
 public:
  DeviceExchange(Communicator& ranks, DeviceCommunicator& devices, const ShardExchangeOptions& options,
                 std::optional<WireError>* error)
      : ranks_(ranks), devices_(devices), options_(options), error_(error) {
    if (options.wire == DType::f16)
      while (divisor_ < ranks.size()) divisor_ *= 2;
  }

  int shards() const override { return ranks_.size(); }
  int first() const override { return ranks_.rank(); }
  int own() const override { return 1; }
  double usual_samples() const override { return options_.usual_samples; }
  Device device() const override { return devices_.device(); }
  std::size_t bucket_bytes() const override { return options_.bucket_bytes; }

  std::vector<double> gather(std::span<const double> own) override {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(ranks_.size()), own.size());
    std::vector<double> all = gather_rows(ranks_, own, counts, options_.flag, options_.deadline_s);
    devices_.begin_step();
    return all;
  }

  void add(std::span<const float>) override { fail_on_host(); }
  void sum(std::span<float>) override { fail_on_host(); }
  void drop() override {
    begun_ = false;
    sent_.clear();
  }

  void begin(const Tensor& range) override {
    if (options_.wire == DType::f32) return start(range);
    Backend& backend = backend_for(device());
    Sent& sent = sent_.emplace_back(Sent{.range = range});
    if (error_ && !*error_) {
      sent.exact = range.clone();
      start(sent.exact);
    }
    if (divisor_ > 1) backend.update().scale_and_limit(range, 1.0 / divisor_, kAnySize);
    sent.values = memory_for(range);
    backend.cast(range, sent.values);
    start(sent.values);
  }

  void begin_values(std::span<const DeviceValues> values) override {
    std::vector<ReducedElements> reduced;
    for (const DeviceValues& each : values)
      reduced.push_back({Elements(each.data, static_cast<std::size_t>(each.count), each.dtype),
                         each.greatest ? Reduction::max : Reduction::sum});
    devices_.all_reduce(reduced);
    begun_ = true;
  }

  void finish() override {
    if (std::exchange(begun_, false)) devices_.join();
    Backend& backend = backend_for(device());
    WireError found;
    for (const Sent& sent : sent_) {
      backend.cast(sent.values, sent.range);
      if (divisor_ > 1) backend.update().scale_and_limit(sent.range, divisor_, kAnySize);
      if (sent.exact.defined()) compare(sent, found);
    }
    // Skips a step that overflowed.
    if (error_ && found.norm > 0.0 && std::isfinite(found.norm) && std::isfinite(found.difference))
      *error_ = {std::sqrt(found.difference), std::sqrt(found.norm)};
    sent_.clear();
  }

 private:
  static constexpr double kAnySize = std::numeric_limits<double>::infinity();

  struct Sent {
    Tensor range, values{}, exact{};
  };

  [[noreturn]] static void fail_on_host() {
    throw InternalError("shards", "gradients of a device are reduced in place");
  }

  void start(const Tensor& values) {
    devices_.all_reduce(Elements(values.raw(), static_cast<std::size_t>(values.numel()), values.dtype()),
                        Reduction::sum);
    begun_ = true;
  }

  // Memory reused from the same range of the step before; recordings keep its address.
  Tensor memory_for(const Tensor& range) {
    Tensor& memory = memory_[range.raw()];
    if (!memory.defined() || memory.shape() != range.shape())
      memory = Tensor::empty(range.shape(), {options_.wire, device(), MemoryKind::workspace});
    return memory;
  }

  static void compare(const Sent& sent, WireError& found) {
    const std::vector<float> exact = sent.exact.to_vector<float>(), got = sent.range.to_vector<float>();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double value = exact[i], difference = static_cast<double>(got[i]) - value;
      found.difference += difference * difference;
      found.norm += value * value;
    }
  }

  Communicator& ranks_;
  DeviceCommunicator& devices_;
  const ShardExchangeOptions options_;
  std::optional<WireError>* const error_;
  double divisor_ = 1.0;
  bool begun_ = false;
  std::vector<Sent> sent_;
  std::map<const void*, Tensor> memory_;  // send buffers, by the address of their range
};

}  // namespace

void require_device_shards(const ShardExchangeOptions& options, int ranks) {
  require(!options.reproducible, "",
          "parallel.reduction: reproducible is not supported on GPUs, whose sums have their own order; use "
          "fast, or "
          "device=cpu");
  require(options.shards == ranks, "",
          "parallel.shards: {} shards by {} rank{} on GPUs, where each rank computes one shard; leave "
          "the key out, or use device=cpu",
          options.shards, ranks, ranks == 1 ? "" : "s");
}

std::unique_ptr<optim::ShardExchange> make_device_exchange(Communicator& ranks, DeviceCommunicator& devices,
                                                           const ShardExchangeOptions& options,
                                                           std::optional<WireError>* error) {
  require_device_shards(options, ranks.size());
  require(options.bucket_bytes > 0, "shards", "ranges of 0 bytes on {}", to_string(devices.device()));
  return std::make_unique<DeviceExchange>(ranks, devices, options, error);
}

}  // namespace tandem::parallel
