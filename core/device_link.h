// DeviceLink: communication interface of a device: a second stream, and a callback during host waits. A CPU
// has none (core/device_library.h).
#pragma once

#include <functional>
#include <string>

namespace tandem {

// Link of one device; lives as long as its backend. Functions throw VendorError.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // Unique identity of the device on this host, one line: a GPU's bus address.
  virtual std::string identity() const = 0;
  // Makes the device current for libraries on this thread.
  virtual void select() = 0;

  // The communication stream (cudaStream_t), made at the first call.
  virtual void* stream() = 0;
  // Later work on that stream waits for all earlier work of the backend. Within Backend::record the wait is
  // recorded, and must be joined there.
  virtual void fork() = 0;
  // Later work of the backend waits for all earlier work on that stream.
  virtual void join() = 0;

  // `look` is called at least a thousand times a second while the host waits for the device, with the
  // duration of the wait in seconds, excluding time when the process was stopped. An exception ends the wait.
  // Without `look` the host sleeps.
  using Look = std::function<void(double waited_s)>;
  virtual void watch(Look look) = 0;
};

}  // namespace tandem
