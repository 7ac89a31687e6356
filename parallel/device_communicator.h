// DeviceCommunicator: collectives between the devices of the ranks.
//
// Joins one device of each rank. Values are in device memory, and calls run in stream order on a stream of
// their own: a call waits for the device's earlier work, and returns at once on the host; its memory belongs
// to the communicator until `join`. All ranks make the same calls in the same order, with the same counts,
// dtypes and roots. Within Backend::record calls are recorded, followed by a `join`, and repeated by every
// replay; replays count as calls.
//
// The host waits for the device as usual, and meanwhile checks whether the ranks are alive: after the
// deadline, or when the underlying library reports an error, the wait throws RankError naming the missing
// rank, or VendorError; every later call throws the same.
#pragma once

#include <span>
#include <string>

#include "core/device.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// Values in device memory and the reduction over all ranks.
struct ReducedElements {
  Elements data;
  Reduction reduction = Reduction::sum;
};

class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device device() const { return device_; }
  // One line for users: the library and its version.
  virtual std::string description() const = 0;

  // Connects the devices; the first call on all ranks, from the thread that makes the later ones. Throws
  // AgreedError on all ranks if one cannot connect, if library versions differ, or if two ranks have the same
  // device.
  virtual void connect() = 0;

  // In place; several buffers are one operation. For f64, f32, f16, bf16, i64 and i32; all ranks get the same
  // bits.
  void all_reduce(std::span<const ReducedElements> values);
  void all_reduce(Elements data, Reduction reduction);
  // `all` has equal parts for the ranks; `own` receives the reduction of this rank's part, and may be that
  // part. all.count = size() · own.count.
  void reduce_scatter(ConstElements all, Elements own, Reduction reduction);
  // Concatenates the ranks' buffers of equal size.
  void all_gather(ConstElements own, Elements all);
  // Sends `data` of rank `root` to all.
  void broadcast(Elements data, int root);

  // Later work of the device waits for all earlier calls.
  virtual void join() = 0;
  // For the host: completion of all work of the device so far, including these calls.
  Pending pending();

  // Before this rank ends alone: aborts started calls, which the device would wait for.
  virtual void abandon() noexcept = 0;

  // Begins a step on all ranks, whose calls may be replays: later waits belong to it.
  virtual void begin_step() = 0;

 protected:
  DeviceCommunicator(int rank, int size, Device device) : rank_(rank), size_(size), device_(device) {}

 private:
  // With checked, non-empty arguments.
  virtual void do_all_reduce(std::span<const ReducedElements> values) = 0;
  virtual void do_reduce_scatter(ConstElements all, Elements own, Reduction reduction) = 0;
  virtual void do_all_gather(ConstElements own, Elements all) = 0;
  virtual void do_broadcast(Elements data, int root) = 0;

  int rank_, size_;
  Device device_;
};

}  // namespace tandem::parallel
