// Connection of the GPUs of the ranks by NCCL.
#pragma once

#include <memory>
#include <string>

#include "parallel/device_communicator.h"

namespace tandem::parallel {

// `ranks`, kept by reference, exchanges ids and detects missing ranks. Communicates only from
// DeviceCommunicator::connect on, which reports if this build or machine has no NCCL. `deadline_s`: for waits
// of the host.
std::unique_ptr<DeviceCommunicator> open_nccl(Communicator& ranks, Device device, double deadline_s);

// The reason why NCCL is unavailable, one line; empty if available. Opens the library.
std::string why_no_nccl();
// "2.28.9"; "" if unavailable.
std::string nccl_version();

}  // namespace tandem::parallel
