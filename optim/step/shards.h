// A step whose batch is divided into shards, which several processes may compute.
//
// A shard is a part of each micro-batch. Shards are independent: each has its own gradient, and its forward
// passes begin with the same running statistics. The step combines all shards: gradients are summed,
// statistics averaged over the shards with samples. So its result depends on the number of shards, not on
// their assignment to processes; the exchange defines whether bit for bit.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "core/tensor.h"

namespace tandem::optim {

// ShardExchange: a process's view of the division, and its collectives. Every process calls the same
// functions in the same order; an exception leaves the step like a failed backward.
class ShardExchange {
 public:
  virtual ~ShardExchange() = default;

  // Number of shards of a micro-batch, and those of this process: first ≤ shard < first + own, at least one.
  virtual int shards() const = 0;
  virtual int first() const = 0;
  virtual int own() const = 0;
  // Usual number of samples of a shard, which weighs 1; the same everywhere.
  virtual double usual_samples() const = 0;

  // All-gather: the rows of all shards in order. `own` holds the rows of this process, one after the other.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
  // All-reduce (sum) over all shards: `add` takes the vector of each own shard in turn, which must not change
  // until `sum` returns the same bits in every process. `total` may be the vector that was added last.
  virtual void add(std::span<const float> values) = 0;
  virtual void sum(std::span<float> total) = 0;
  // Drops what was added since the last sum. Every process drops the step.
  virtual void drop() = 0;

  // Bucket size for reducing gradients while backward is running, with one shard per process; 0: one
  // reduction by `add` and `sum`.
  virtual std::size_t bucket_bytes() const { return 0; }
  // Starts an in-place all-reduce of a range of f32 gradients without waiting.
  virtual void begin(const Tensor&) {}
  // Waits for all started ranges; on a device, later work waits.
  virtual void finish() {}

  // Collectives of a sharded update (StepOptions::update_parts): a buffer has counts[p] elements for process
  // p, in order.
  // Reduce-scatter of the f32 total: each process gets its own part; the rest of the buffer is undefined.
  virtual void sum_parts(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }
  // All-gather of the parts of a buffer.
  virtual void gather_parts(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }
  // Broadcast from that process.
  virtual void tell(std::span<double>, int /*process*/) { refuse_parts(); }
  // Gather to the first process: a buffer of all parts, of which `own` is this process's. The others get
  // nothing.
  virtual Tensor part_by_part(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }

  // Device of the parameters. On a device other than the CPU a process has one shard, `add` and `sum` are not
  // called, and started ranges run in stream order, again in every replay of a recording.
  virtual Device device() const { return {}; }
  // All-reduce (sum or maximum) of a few values in that device's memory.
  struct DeviceValues {
    void* data;
    Index count;
    DType dtype;
    bool greatest;
  };
  virtual void begin_values(std::span<const DeviceValues>) {}

 private:
  [[noreturn]] static void refuse_parts() {
    throw InternalError("shards", "this exchange does not support sharded updates");
  }
};

}  // namespace tandem::optim
