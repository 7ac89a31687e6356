// GPUs of the ranks of one run of mpirun, joined by NCCL.
#pragma once

#include <memory>
#include <string>

#include "parallel/device_communicator.h"

namespace tandem::parallel {

// `ranks`, kept by reference, is how they find each other, and who knows which of them did not come. Does not
// communicate before DeviceCommunicator::connect, which says why this build or this machine has no NCCL.
// `deadline_s`: for what the host waits.
std::unique_ptr<DeviceCommunicator> open_nccl(Communicator& ranks, Device device, double deadline_s);

// Why this build or this machine has none, one line; empty when it has. Opens the library.
std::string why_no_nccl();
// "2.28.9"; "" where there is none.
std::string nccl_version();

}  // namespace tandem::parallel
