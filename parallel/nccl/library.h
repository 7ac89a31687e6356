// The used part of NCCL's library, opened at run time, so that one program runs with and without it. Only
// files of this folder include this header; it needs nccl.h, and CUDA's headers for the names of its types.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "parallel/communicator.h"
#include "parallel/library_symbols.h"

namespace tandem::parallel {

// Functions named as in NCCL without prefix.
struct NcclLibrary {
  LibrarySymbols symbols;

  decltype(&::ncclGetVersion) GetVersion = symbols["ncclGetVersion"];
  decltype(&::ncclGetUniqueId) GetUniqueId = symbols["ncclGetUniqueId"];
  decltype(&::ncclCommInitRankConfig) CommInitRankConfig = symbols["ncclCommInitRankConfig"];
  decltype(&::ncclCommGetAsyncError) CommGetAsyncError = symbols["ncclCommGetAsyncError"];
  decltype(&::ncclCommFinalize) CommFinalize = symbols["ncclCommFinalize"];
  decltype(&::ncclCommDestroy) CommDestroy = symbols["ncclCommDestroy"];
  decltype(&::ncclCommAbort) CommAbort = symbols["ncclCommAbort"];
  decltype(&::ncclAllReduce) AllReduce = symbols["ncclAllReduce"];
  decltype(&::ncclReduceScatter) ReduceScatter = symbols["ncclReduceScatter"];
  decltype(&::ncclAllGather) AllGather = symbols["ncclAllGather"];
  decltype(&::ncclBroadcast) Broadcast = symbols["ncclBroadcast"];
  decltype(&::ncclGroupStart) GroupStart = symbols["ncclGroupStart"];
  decltype(&::ncclGroupEnd) GroupEnd = symbols["ncclGroupEnd"];
  decltype(&::ncclGetErrorString) GetErrorString = symbols["ncclGetErrorString"];
  decltype(&::ncclGetLastError) GetLastError = symbols["ncclGetLastError"];
};

struct OpenedNccl {
  const NcclLibrary* library = nullptr;
  int version = 0;         // as ncclGetVersion returns it: 22809 is 2.28.9
  std::string why_none{};  // one line, when there is none
};

// libnccl.so.2, or the file in the environment variable TANDEM_NCCL_LIBRARY; opened by the first call.
const OpenedNccl& opened_nccl();

// "2.28.9"
std::string nccl_version_text(int version);

ncclDataType_t nccl_type(DType dtype);
ncclRedOp_t nccl_op(Reduction reduction);

}  // namespace tandem::parallel
