// DeviceServices: memory, order, time and recordings of a device; also the copies that all code needs.
//
// Calls may return before the work is done (an asynchronous device); `synchronize` waits. Errors of the
// device's libraries arrive as VendorError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/allocator.h"
#include "core/tensor.h"

namespace tandem {

// Recorded work of a device: see DeviceServices::record.
class Recording {
 public:
  virtual ~Recording() = default;
  // Enqueues the work again; reads and writes the memory with which it was recorded.
  virtual void replay() = 0;
};

// Rules for the choice among a device's algorithms.
struct ComputeRules {
  bool allow_tf32 = true;      // f32 operands of products may be rounded to TF32 (10 bits of mantissa)
  bool deterministic = false;  // only algorithms with the same bits in every run; throws where there is none
  bool autotune = true;        // the fastest of several in a timing; otherwise a fixed rule chooses
  friend bool operator==(const ComputeRules&, const ComputeRules&) = default;
};

class DeviceServices {
 public:
  virtual ~DeviceServices() = default;

  virtual Device device() const = 0;
  virtual CachingAllocator& allocator() = 0;
  // Figures of all memory of the device, that of recordings included.
  virtual MemoryFigures memory() { return allocator().figures(); }
  virtual void reset_peak_memory() { allocator().reset_peak(); }
  // Rules for all work enqueued from now on. A CPU has no choice: it is always exact and deterministic.
  virtual void set_rules(const ComputeRules&) {}
  // The chosen algorithm of each problem as text, empty if the device has no choice.
  virtual std::string tuning_cache() const { return {}; }
  // Adopts the choices of an earlier run; false if the text is of another device or library.
  virtual bool adopt_tuning_cache(const std::string& /*text*/) { return false; }

  // Waits until all work is done.
  virtual void synchronize() = 0;

  // ---- events: points in the order of the work. The host reads a step's state once its event is done; event
  // 0 is done from the start.
  virtual std::uint64_t record_event() = 0;
  virtual bool event_done(std::uint64_t event) = 0;
  virtual void wait_event(std::uint64_t event) = 0;

  // ---- measurement: for profiles, not within `record`.
  // A point in the order of the work: the device's clock when all work before it is done.
  virtual std::uint64_t timestamp() = 0;
  // Waits for both timestamps. Time in which the device waited for the host counts, too.
  virtual double seconds_between(std::uint64_t first, std::uint64_t last) = 0;
  // Frees all timestamps.
  virtual void clear_timestamps() {}
  // A name for the work until the matching end_range, shown by external profilers (NVTX, for Nsight Systems);
  // without effect on a CPU. Ranges nest.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}

  // ---- copies
  virtual void fill(const Tensor& y, double value) = 0;
  // Same dtype and element count; one side may be host memory. Memory of transfer_allocator is copied without
  // waiting: the host may read y, or change x, once a later event is done. For other host memory the call
  // waits.
  virtual void copy_bytes(const Tensor& x, const Tensor& y) = 0;
  // Any dtype to any dtype, same shape. `accumulate`: y ← y + x.
  virtual void cast(const Tensor& x, const Tensor& y, bool accumulate = false) = 0;
  // Host memory for copies that do not wait: page-locked for a GPU, ordinary memory for a CPU.
  virtual CachingAllocator& transfer_allocator() = 0;
  // copy_bytes from transfer memory in parallel to the computation: begins once `after` is done, and work
  // enqueued from now on sees y. No work enqueued after that event may use the memory of y, so the allocator
  // must not have handed it out since.
  virtual void upload(const Tensor& x, const Tensor& y, std::uint64_t after) = 0;

  // ---- recording
  // Whether `record` can be called.
  virtual bool records() const { return false; }
  // Runs `work`, and records its work on the device instead of doing it. `work` must not wait for the device,
  // nor touch host memory other than transfer memory. Its allocations belong to the recordings while one of
  // them lives; recordings share them, so a replay overwrites the results of others. Exceptions of `work`
  // pass through, and nothing is recorded. Throws InternalError where records() is false.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work);
};

}  // namespace tandem
