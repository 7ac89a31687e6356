// What the processes of one training say to each other from device to device.
//
// A DeviceCommunicator joins one device of each rank. Values lie in the device's memory and are worked on in
// the order of the device, on a stream beside that of everything else: a call begins when the device has done
// what it was asked for so far, and returns at once; its memory is the communicator's until `join`. All ranks
// make the same calls in the same order, with the same counts, dtypes and roots. Within Backend::record calls
// are recorded, with a `join` behind them, and done again by every replay; replays count as calls.
//
// The host waits for the device as ever. While it does, it is looked whether the ranks are still there: after
// the deadline, or when the library below reports an error, the wait throws, RankError naming the rank that
// did not come or VendorError; every later call throws the same.
#pragma once

#include <span>
#include <string>

#include "core/device.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// Values in device memory and what becomes of each: the reduction over all ranks.
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
  // One line for people: the library and its version.
  virtual std::string description() const = 0;

  // Joins the devices; before every other call, by all ranks, and from the thread that calls from then on.
  // Throws AgreedError, on all ranks, where one cannot, where libraries differ, and where two ranks have one
  // device.
  virtual void connect() = 0;

  // In place. As one piece of communication where there are several. Of f64, f32, f16, bf16, i64 and i32; all
  // ranks get the same bits.
  void all_reduce(std::span<const ReducedElements> values);
  void all_reduce(Elements data, Reduction reduction);
  // `all` is divided among the ranks into equal parts; `own` gets the reduction of this rank's, and may be
  // that part itself. all.count = size() · own.count.
  void reduce_scatter(ConstElements all, Elements own, Reduction reduction);
  // The inverse of division.
  void all_gather(ConstElements own, Elements all);
  // `data` of rank `root` to all.
  void broadcast(Elements data, int root);

  // What the device is asked for from now on begins when all of these calls have ended.
  virtual void join() = 0;
  // For the host: all that the device was asked for so far, these calls included.
  Pending pending();

  // Before an end that is not that of all ranks: gives up what has been begun, which the device would wait
  // for.
  virtual void abandon() noexcept = 0;

  // A step has begun on all ranks, whose calls may be replays: what is waited for from now on is its.
  virtual void begin_step() = 0;

 protected:
  DeviceCommunicator(int rank, int size, Device device) : rank_(rank), size_(size), device_(device) {}

 private:
  // With checked arguments that are not empty.
  virtual void do_all_reduce(std::span<const ReducedElements> values) = 0;
  virtual void do_reduce_scatter(ConstElements all, Elements own, Reduction reduction) = 0;
  virtual void do_all_gather(ConstElements own, Elements all) = 0;
  virtual void do_broadcast(Elements data, int root) = 0;

  int rank_, size_;
  Device device_;
};

}  // namespace tandem::parallel
