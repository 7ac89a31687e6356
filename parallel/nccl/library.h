// NCCL's library as far as it is used, opened at run time: a machine without it runs the same program. Only
// files of this folder include this header; it needs nccl.h, and CUDA's headers for the names of its types.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "parallel/communicator.h"

namespace tandem::parallel {

// Functions under the names of NCCL less their prefix.
struct NcclLibrary {
  decltype(&::ncclGetVersion) GetVersion;
  decltype(&::ncclGetUniqueId) GetUniqueId;
  decltype(&::ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&::ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&::ncclCommFinalize) CommFinalize;
  decltype(&::ncclCommDestroy) CommDestroy;
  decltype(&::ncclCommAbort) CommAbort;
  decltype(&::ncclAllReduce) AllReduce;
  decltype(&::ncclReduceScatter) ReduceScatter;
  decltype(&::ncclAllGather) AllGather;
  decltype(&::ncclBroadcast) Broadcast;
  decltype(&::ncclGroupStart) GroupStart;
  decltype(&::ncclGroupEnd) GroupEnd;
  decltype(&::ncclGetErrorString) GetErrorString;
  decltype(&::ncclGetLastError) GetLastError;
};

struct OpenedNccl {
  const NcclLibrary* library = nullptr;
  int version = 0;       // as ncclGetVersion gives it: 22809 is 2.28.9
  std::string why_none;  // one line, when there is none
};

// libnccl.so.2, or the file that the environment variable TANDEM_NCCL_LIBRARY names; opened by the first call
// that asks.
const OpenedNccl& opened_nccl();

// "2.28.9"
std::string nccl_version_text(int version);

ncclDataType_t nccl_type(DType dtype);
ncclRedOp_t nccl_op(Reduction reduction);

}  // namespace tandem::parallel
