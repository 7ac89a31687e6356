// A step whose batch is divided into shards, which several processes may compute.
//
// A shard is a part of each micro-batch. Shards do not see each other: each has a gradient of its own, and
// its forward passes begin with the same running statistics. What the step does is decided from what all of
// them gathered: the gradients are summed, the statistics averaged over the shards that had samples. So a
// step depends on how many shards there are, and not on who computed which; whether to the bit is for the
// exchange to say.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "core/tensor.h"

namespace tandem::optim {

// What a process knows of the division, and how it adds up with the others. Every process calls the same
// functions in the same order; what they throw leaves the step as a failed backward does.
class ShardExchange {
 public:
  virtual ~ShardExchange() = default;

  // Shards of a micro-batch, and those of this process: first ≤ shard < first + own, at least one.
  virtual int shards() const = 0;
  virtual int first() const = 0;
  virtual int own() const = 0;
  // Samples that weigh 1, the same everywhere: those of a shard as it usually is.
  virtual double usual_samples() const = 0;

  // The rows of all shards in their order, of which `own` has those of this process, one after the other.
  virtual std::vector<double> gather(std::span<const double> own) = 0;
  // A sum over all shards: `add` takes the vector of each own shard in turn, which stays as it is until `sum`
  // has given the same bits to every process. `total` may be the vector that was added last.
  virtual void add(std::span<const float> values) = 0;
  virtual void sum(std::span<float> total) = 0;
  // Forgets what was added since the last sum: the step is dropped, which every process knows.
  virtual void drop() = 0;

  // Where a process has one shard, its gradients may be added up in ranges of about so many bytes, while
  // backward makes others; 0: they are added up at once, by `add` and `sum`.
  virtual std::size_t bucket_bytes() const { return 0; }
  // Begins to add up a range of f32 gradients over all shards, in its place, and waits for nobody.
  virtual void begin(const Tensor&) {}
  // Waits for all that were begun: on a device, what it is asked for from now on waits.
  virtual void finish() {}

  // Where the update is divided among processes (StepOptions::update_parts), buffers are: counts[p] elements
  // for process p, in order.
  // As `sum`, but each process gets its own part of the f32 total. What lies elsewhere in it is lost.
  virtual void sum_parts(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }
  // Every process gets what each has in its part of a buffer.
  virtual void gather_parts(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }
  // Every process gets the values of that one.
  virtual void tell(std::span<double>, int /*process*/) { refuse_parts(); }
  // The first process gets a buffer of what each has in its part, of which `own` is this one's; the others
  // get nothing.
  virtual Tensor part_by_part(const Tensor&, std::span<const std::size_t>) { refuse_parts(); }

  // Where the parameters are whose gradients this adds up. On another device than the CPU a process has one
  // shard, `add` and `sum` are not called, and what is begun is done in the order of the device, again by
  // every replay of a recording.
  virtual Device device() const { return {}; }
  // A few values in the memory of that device. Begins to make each the sum over all shards, or the greatest.
  struct DeviceValues {
    void* data;
    Index count;
    DType dtype;
    bool greatest;
  };
  virtual void begin_values(std::span<const DeviceValues>) {}

 private:
  [[noreturn]] static void refuse_parts() {
    throw InternalError("shards", "these processes do not divide an update");
  }
};

}  // namespace tandem::optim
