// What a device offers to those who let it communicate with others: a second order of its work, and a look at
// what the host waits for. A CPU has none (core/device_library.h).
#pragma once

#include <functional>
#include <string>

namespace tandem {

// Of one device, whose backend lives as long. Functions throw VendorError.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // One line that no other device of this host has: a GPU's address on its bus.
  virtual std::string identity() const = 0;
  // Makes the device the one that libraries take for this thread's.
  virtual void select() = 0;

  // The stream of communication (cudaStream_t), made at the first call.
  virtual void* stream() = 0;
  // What is put on that stream from now on begins when all is done that the backend was asked for so far.
  // Within Backend::record it is recorded with it, and has to be joined there.
  virtual void fork() = 0;
  // What the backend is asked for from now on begins when all is done that was put on that stream.
  virtual void join() = 0;

  // `look` is called a thousand times a second or more while the host waits for the device, with the seconds
  // of that wait, of which those do not count for which the process itself was stopped. What it throws ends
  // the wait. Without one the host sleeps.
  using Look = std::function<void(double waited_s)>;
  virtual void watch(Look look) = 0;
};

}  // namespace tandem
