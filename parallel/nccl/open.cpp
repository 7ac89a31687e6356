#include "parallel/nccl/open.h"

#include "core/error.h"

#ifdef TANDEM_NCCL
#include "parallel/nccl/communicator.h"
#endif

namespace tandem::parallel {

std::string why_no_nccl() {
#ifdef TANDEM_NCCL
  return opened_nccl().why_none;
#else
  return "this build of Tandem has no NCCL: there was no nccl.h when it was compiled";
#endif
}

std::string nccl_version() {
#ifdef TANDEM_NCCL
  if (opened_nccl().library) return nccl_version_text(opened_nccl().version);
#endif
  return "";
}

std::unique_ptr<DeviceCommunicator> open_nccl([[maybe_unused]] Communicator& ranks,
                                              [[maybe_unused]] Device device,
                                              [[maybe_unused]] double deadline_s) {
#ifdef TANDEM_NCCL
  return std::make_unique<NcclCommunicator>(ranks, device, deadline_s);
#else
  throw VendorError("nccl", "ranks on GPUs need NCCL: " + why_no_nccl());
#endif
}

}  // namespace tandem::parallel
